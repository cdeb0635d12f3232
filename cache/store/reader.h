// Reads a cache: the valid revision of every exam, in the order of the input. Never trusts a file:
// what is damaged or hostile ends in a CacheError that names the file. Opening reads the metadata
// and compares its checksum; features, cut and thumbnails are compared when they are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/format/contents.h"
#include "cache/format/layout.h"

namespace coldframe::cache {

class ShardFile;
struct OpenShard;

class CacheReader {
 public:
  // CacheError: nothing there, not a cache, damaged, shards of several recipes.
  explicit CacheReader(const std::filesystem::path& path, Detail detail = Detail::kAll)
      : CacheReader(locate(path), detail) {}
  explicit CacheReader(const Location& location, Detail detail = Detail::kAll);
  ~CacheReader();
  CacheReader(CacheReader&&) noexcept;
  CacheReader& operator=(CacheReader&&) noexcept;

  const ShardHeader& header() const { return header_; }  // precisions: the distinct ones of all
  const Recipe& recipe() const { return header_.recipe; }
  std::int64_t dimension() const { return header_.dimension; }  // D
  DType storage() const { return header_.storage; }
  const std::vector<std::string>& views() const { return header_.views; }  // "clean" first
  const std::vector<std::string>& precisions() const { return header_.precisions; }
  const std::vector<ExamInfo>& exams() const { return exams_; }  // sorted by ordinal
  // Those that no later revision of their exam voids.
  const std::vector<Failure>& failures() const { return failures_; }
  std::vector<std::string> column_names() const { return cache::column_names(exams_); }
  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;  // to open it
  std::size_t shard_count() const { return files_.size(); }
  std::uint64_t thumbnail_bytes() const;  // of all exams' thumbnails; 0: there are none

  // Index into exams(); npos when there is none.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  std::size_t find(const std::string& id) const;

  // The revision for extracting an exam again: 0 when nothing is known of it, else one more than
  // that of its features and its failures.
  std::uint32_t next_revision(const std::string& id) const;

  // XXH3-64 of the exam's rows as stored: one per view, equal for equal features in equal storage,
  // followed, if there is a cut, by one per view of it.
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return stored_[exam].checksums;
  }

  // Features of one exam as float32, row-major [T, D]; rows of missing frames are NaN. Checks the
  // exam's checksum. Thread-safe.
  std::vector<float> features(std::size_t exam, const std::string& view = "clean") const;

  // The same for each of `exams` in turn, read ahead by a few megabytes (or exams, where they are
  // larger): for whoever goes through many. `body` runs on this thread.
  using Visit = std::function<void(std::size_t exam, std::span<const float> features)>;
  void scan(const std::string& view, std::span<const std::size_t> exams, const Visit& body) const;
  // Hands over rows as stored: [T, D] little-endian values of type storage().
  using VisitStored = std::function<void(std::size_t exam, std::span<const std::byte> rows)>;
  void scan_stored(const std::string& view, std::span<const std::size_t> exams,
                   const VisitStored& body) const;

  // The cut that is stored beside the features; nullopt: none.
  const std::optional<Cut>& cut() const { return header_.cut; }
  // The cut of one exam in views()[view] as stored, row-major [T, shape of the cut]; rows of
  // missing frames are NaN, of pixels 0. Checks the exam's checksum. Thread-safe. CacheError when
  // there is no cut, or room for another number of bytes.
  void read_cut(std::size_t exam, std::size_t view, std::span<std::byte> rows) const;
  // The same as scan_stored(), for a cut.
  void scan_cut(std::size_t view, std::span<const std::size_t> exams,
                const VisitStored& body) const;

  // A small JPEG file of each frame of an exam, [T], "" for a frame without one; empty when the
  // cache has none. Checks the exam's checksum, but not what is in them: whoever decodes them must
  // be prepared for anything. Thread-safe.
  std::vector<std::string> thumbnails(std::size_t exam) const;

  // For who writes exams to another file, as they are stored. Reading is thread-safe.
  // Rows of one array (ShardHeader::array) of an exam, every checksum compared.
  void read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows) const;
  const StoredThumbnails& stored_thumbnails(std::size_t exam) const {
    return stored_[exam].thumbnails;
  }
  // All JPEGs of an exam, concatenated, StoredThumbnails::bytes() in all.
  void read_thumbnails(std::size_t exam, std::span<std::byte> bytes) const;
  // Ordinals of deliberately deleted exams (tombstones).
  const std::set<std::uint64_t>& deleted_ordinals() const { return deleted_ordinals_; }
  // Of the file that the exam lies in.
  const std::vector<std::string>& precisions_of(std::size_t exam) const;
  const std::filesystem::path& path_of(std::size_t exam) const;
  // Files whose exams and failures have all been superseded.
  std::vector<std::filesystem::path> stale_files() const;

 private:
  struct ExamLocation {
    std::size_t file, exam;
  };
  struct Stored {  // of an exam's bytes
    std::vector<std::uint64_t> checksums;
    StoredThumbnails thumbnails;
  };
  struct ContiguousExams {  // exams that are contiguous in one file
    std::span<const std::size_t> exams;
    std::vector<std::byte> rows;
  };
  void load(const std::vector<std::filesystem::path>& paths, Detail detail);
  void take_header(const ShardFile& file, bool first);
  void choose_exams();
  void choose_failures();
  std::size_t view_index(const std::string& view) const;
  std::size_t cut_array(std::size_t view) const;

  // The first exams of `exams` that can be read at once, and their rows, every checksum compared.
  ContiguousExams read_contiguous(std::span<const std::size_t> exams, std::size_t array) const;
  void read_contiguous(std::span<const std::size_t> run, std::size_t array,
                       std::span<std::byte> rows) const;
  void scan_array(std::size_t array, std::span<const std::size_t> exams,
                  const VisitStored& body) const;
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
  std::vector<ExamLocation> places_;
  std::vector<Stored> stored_;
  std::vector<Failure> failures_;
  std::set<std::uint64_t> deleted_ordinals_;
  std::vector<bool> in_use_;  // per file
  std::unordered_map<std::string, std::size_t> index_;
  std::unordered_map<std::string, std::uint32_t> failed_;  // the latest revision of failures
  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  using OpenFile = std::pair<std::size_t, std::shared_ptr<const OpenShard>>;
  mutable std::vector<OpenFile> open_;  // the least recently used first
};

}  // namespace coldframe::cache
