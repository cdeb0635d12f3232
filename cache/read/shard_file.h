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

  // An exam's rows of one array as stored, by its number in this file; its checksum is compared.
  // Opens the file again if close() was called; CacheError if it was replaced since.
  void read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows);
  // read_run() reads `count` exams from `first` on at once; check_rows() makes the comparison that
  // belongs to each of them.
  void read_run(std::size_t first, std::size_t count, std::size_t array, std::span<std::byte> rows);
  void check_rows(std::size_t exam, std::size_t array, std::span<const std::byte> rows) const;
  // All JPEGs of an exam, one behind the other (StoredThumbnails::bytes() in all); their checksum
  // is compared.
  void read_thumbnails(std::size_t exam, std::span<std::byte> bytes);
  void close();  // gives the descriptor back; a folder may have more shards than a process may open
  bool is_open() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coldframe::cache
