// All files of a cache together: the valid revision of every exam in the order of the input.
// Internal to cache/; CacheReader is its public face.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/format/contents.h"
#include "cache/format/layout.h"
#include "cache/read/shard_file.h"
#include "common/cli/error.h"

namespace coldframe::cache {

class ShardSet {
 public:
  // CacheError: nothing there, damaged, files of several recipes.
  explicit ShardSet(const Location& location, Detail detail = Detail::kAll);

  const ShardHeader& header() const { return header_; }  // precisions: of all files
  const std::vector<ExamInfo>& exams() const { return exams_; }
  const std::vector<Failure>& failures() const { return failures_; }
  // Places in the input of exams that were taken out on purpose.
  const std::set<std::uint64_t>& places_taken_out() const { return places_taken_out_; }
  const std::vector<std::string>& precisions_of(std::size_t exam) const;
  const std::filesystem::path& path_of(std::size_t exam) const;  // of the file that it lies in
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return stored_[exam].checksums;
  }
  // Index into exams(), or -1 as size_t.
  std::size_t find(const std::string& id) const;
  std::uint32_t next_revision(const std::string& id) const;

  // Thread-safe.
  void read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows) const;

  const StoredThumbnails& thumbnails(std::size_t exam) const { return stored_[exam].thumbnails; }
  // Reads the JPEGs of one exam, StoredThumbnails::bytes() of them. Thread-safe.
  void read_thumbnails(std::size_t exam, std::span<std::byte> bytes) const;

  // Counts the first exams of `exams` that lie one behind the other in one file, with at most
  // `most_bytes` of an array together (but at least one).
  std::size_t run_length(std::span<const std::size_t> exams, std::size_t array,
                         std::size_t most_bytes) const;
  // The rows of such a run in one read, every checksum compared. Thread-safe.
  void read_run(std::span<const std::size_t> run, std::size_t array,
                std::span<std::byte> rows) const;

  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;  // to open it
  // Their exams' ids, revisions and places in the input are known until forget_superseded().
  const std::vector<std::unique_ptr<ShardFile>>& files() const { return files_; }
  void forget_superseded();  // frees memory that only the choice of revisions needed
  // Files whose exams and failures have all been superseded.
  std::vector<std::filesystem::path> stale_files() const;

 private:
  struct Place {
    std::size_t file, exam;
  };
  struct Stored {  // of an exam's bytes
    std::vector<std::uint64_t> checksums;
    StoredThumbnails thumbnails;
  };
  void load(const std::vector<std::filesystem::path>& paths, Detail detail);
  void take_header(const ShardFile& file, bool first);
  void choose_exams();
  void choose_failures();
  // The file, opened. The mutex is held while the list of open files is looked at, not while a file
  // is opened or read: a slow disk holds up who waits for it, and nobody else.
  std::shared_ptr<const OpenShard> open_file(std::size_t file) const;
  // The open file from the list, else `fresh`, which goes there in place of another; null without.
  std::shared_ptr<const OpenShard> keep_open(std::size_t file,
                                             std::shared_ptr<const OpenShard> fresh) const;

  ShardHeader header_;
  bool views_known_ = false;
  std::vector<std::unique_ptr<ShardFile>> files_;
  std::vector<ExamInfo> exams_;
  std::vector<Place> places_;
  std::vector<Stored> stored_;
  std::vector<Failure> failures_;
  std::set<std::uint64_t> places_taken_out_;
  std::vector<bool> in_use_;  // per file
  std::unordered_map<std::string, std::size_t> index_;
  std::unordered_map<std::string, std::uint32_t> failed_;  // the latest revision of failures
  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  using OpenFile = std::pair<std::size_t, std::shared_ptr<const OpenShard>>;
  mutable std::vector<OpenFile> open_;  // the least recently used first
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

// CacheError that prints the differences and then `advice`, unless both can be of one cache.
// `name`: of the second.
void require_same_cache(const ShardHeader& first, const ShardHeader& other, const std::string& name,
                        const std::string& advice = "");

}  // namespace coldframe::cache
