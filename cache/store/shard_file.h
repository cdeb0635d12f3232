// One file of a cache, opened and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/contents.h"
#include "cache/format/layout.h"
#include "cache/format/shard.h"
#include "cache/hdf5/file_reader.h"
#include "common/cli/error.h"
#include "common/files/file.h"

namespace coldframe::cache {

// A file of a cache with a descriptor. Any number of threads may read by it.
struct OpenShard {
  OpenShard();
  ~OpenShard();
  OpenShard(const OpenShard&) = delete;
  OpenShard& operator=(const OpenShard&) = delete;
  static std::size_t count();  // of those of this process

  std::unique_ptr<InputFile> file;
  std::unique_ptr<hdf5::FileReader> reader;  // of `file`, like what follows
  std::vector<hdf5::DatasetReader> arrays;
  std::optional<hdf5::DatasetReader> thumbnails;
};

class ShardFile {
 public:
  // Checks the trailer, the structure and the metadata, and loads the metadata. CacheError.
  explicit ShardFile(const std::filesystem::path& path, Detail detail = Detail::kAll,
                     Check check = Check::kMetadata);

  const std::filesystem::path& path() const { return path_; }
  const ShardContents& contents() const { return contents_; }
  ShardContents& contents() { return contents_; }
  std::uint64_t bytes_on_disk() const { return bytes_; }
  std::uint64_t bytes_read() const { return bytes_read_; }  // to open it

  // Frees the exams of contents(): CacheReader keeps its own list. (`{}` would keep the memory.)
  void forget_exams() { contents_.exams = std::vector<StoredExam>(); }

  // The file, opened again after close(): CacheError if it was replaced since. Thread-safe.
  std::shared_ptr<const OpenShard> open() const;
  // Gives the descriptor back, unless somebody reads by it: a folder may have more shards than a
  // process may open.
  void close() { open_.reset(); }

  // The rows of one array as stored, of `count` exams from number `first` of this file on.
  // Thread-safe, as what follows.
  void read_run(const OpenShard& open, std::size_t first, std::size_t count, std::size_t array,
                std::span<std::byte> rows) const;
  // CacheError unless the rows of an exam have the checksum.
  void check_rows(const std::string& id, std::size_t array, std::uint64_t checksum,
                  std::span<const std::byte> rows) const;
  // All JPEGs of an exam, concatenated (StoredThumbnails::bytes()); CacheError unless their
  // checksum matches.
  void read_thumbnails(const OpenShard& open, std::size_t exam, std::span<std::byte> bytes) const;
  void check_thumbnails(const std::string& id, std::uint64_t checksum,
                        std::span<const std::byte> bytes) const;

 private:
  void open_arrays(OpenShard& open) const;

  std::filesystem::path path_;
  std::string identity_;
  std::uint64_t bytes_ = 0, end_ = 0;  // with and without the trailer
  std::uint64_t bytes_read_ = 0;
  ShardContents contents_;
  std::vector<std::uint64_t> offsets_;            // [N+1] rows of the arrays
  std::vector<std::uint64_t> thumbnail_offsets_;  // [N+1] bytes
  std::shared_ptr<const OpenShard> open_;         // null after close()
};

// Calls `load` with the files that are there. A packing process may remove a shard between the
// listing and the opening; then they are listed again.
template <typename Load>
void with_listing(const Location& location, Load load) {
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::filesystem::path> files = location.files();
    try {
      load(files);
      return;
    } catch (const CacheError&) {
      if (attempt == 4 || location.files() == files) throw;
    }
  }
}

}  // namespace coldframe::cache
