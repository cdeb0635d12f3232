// One file of a cache, opened and checked.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "cache/format/contents.h"
#include "cache/format/shard/trailer.h"

namespace coldframe::cache {

class ShardFile {
 public:
  // Checks the trailer, the structure and the metadata, and loads the metadata. CacheError.
  explicit ShardFile(const std::filesystem::path& path, Detail detail = Detail::kAll,
                     Check check = Check::kMetadata);
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  const std::filesystem::path& path() const;
  const ShardContents& contents() const;
  ShardContents& contents();
  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;  // to open it

  // Forgets the exams of contents(), of which a ShardSet keeps those that hold.
  void forget_exams();

  // The rows of one array as stored, of `count` exams from number `first` of this file on. Opens
  // the file again if close() was called; CacheError if it was replaced since.
  void read_run(std::size_t first, std::size_t count, std::size_t array, std::span<std::byte> rows);
  // CacheError unless the rows of an exam have the checksum.
  void check_rows(const std::string& id, std::size_t array, std::uint64_t checksum,
                  std::span<const std::byte> rows) const;
  // All JPEGs of an exam, one behind the other (StoredThumbnails::bytes() in all), and the same.
  void read_thumbnails(std::size_t exam, std::span<std::byte> bytes);
  void check_thumbnails(const std::string& id, std::uint64_t checksum,
                        std::span<const std::byte> bytes) const;
  void close();  // gives the descriptor back; a folder may have more shards than a process may open
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coldframe::cache
