// The shards that one worker writes one after another: exams gather in memory until a shard is full
// or old, and then appear as a file. Internal to cache/.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/contents.h"
#include "cache/format/layout.h"
#include "cache/format/shard.h"
#include "cache/hdf5/file_writer.h"
#include "cache/store/writer.h"

namespace coldframe::cache {

// Has the form of StoredThumbnails, with the bytes of all frames concatenated.
struct Thumbnails {
  std::vector<std::uint64_t> sizes;
  std::vector<std::byte> bytes;
};

class ShardSequence {
 public:
  ShardSequence(Location location, ShardHeader header, const WriterOptions& options);

  // Fills `rows` with the exam's rows of one array of the header, as stored.
  using FillRows = std::function<void(std::size_t array, std::span<std::byte> rows)>;
  // DataError for metadata that cannot be stored. Publishes first if the exam would make the shard
  // too large; one that is too large for any has a shard of its own, which is built on disk at
  // once. If `fill` throws, nothing may be added or published afterwards.
  void add(ExamInfo info, const FillRows& fill, Thumbnails thumbnails = {});
  void add_failure(Failure failure);
  void publish_if_due();
  // Exams that are pending stay pending when it throws.
  void publish();

  const ShardHeader& header() const { return contents_.header; }
  // Both publish first if the pending shard says otherwise.
  void set_precisions(std::vector<std::string> precisions);
  void set_views(std::vector<std::string> views);

  std::function<void(std::size_t exams)> on_published;

 private:
  bool empty() const { return contents_.exams.empty() && contents_.failures.empty(); }
  void start_clock();
  void take_memory();
  // Returns the checksum of what was appended.
  std::uint64_t append_rows(std::size_t array, std::size_t frames, const FillRows& fill,
                            std::vector<std::byte>& to) const;
  void publish_alone(StoredExam exam, const FillRows& fill, std::span<const std::byte> thumbnails);
  std::filesystem::path next_path();
  NextName further_names();
  void finish_shard();
  std::uint64_t image_bytes(const MetadataSize& size, std::uint64_t exams, std::uint64_t frames,
                            std::uint64_t thumbnail_bytes) const;

  Location location_;
  WriterOptions options_;
  std::uint64_t number_;
  ShardContents contents_;
  std::vector<std::vector<std::byte>> rows_;  // [array] as they will lie in the file
  std::vector<std::byte> thumbnails_;
  hdf5::MemoryStore image_;
  std::uint64_t frames_ = 0;
  MetadataSize size_;  // of the exams that are pending
  std::chrono::steady_clock::time_point started_;
};

}  // namespace coldframe::cache
