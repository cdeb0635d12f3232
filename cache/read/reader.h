// Reads a cache: the valid revision of every exam, in the order of the input. Never trusts a file:
// what is damaged or hostile ends in a CacheError that names the file. Opening reads the metadata
// and compares its checksum; features, cut and thumbnails are compared when they are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/cut.h"
#include "cache/format/exam.h"
#include "cache/format/layout.h"
#include "cache/format/recipe.h"
#include "cache/format/storage_type.h"

namespace coldframe::cache {

class ShardSet;

class CacheReader {
 public:
  // CacheError: nothing there, not a cache, damaged, shards of several recipes.
  explicit CacheReader(const std::filesystem::path& path, Detail detail = Detail::kAll);
  ~CacheReader();
  CacheReader(CacheReader&&) noexcept;
  CacheReader& operator=(CacheReader&&) noexcept;

  const Recipe& recipe() const;
  std::int64_t dimension() const;  // D
  DType storage() const;
  const std::vector<std::string>& views() const;       // "clean" first
  const std::vector<std::string>& precisions() const;  // the distinct ones over all shards
  const std::vector<ExamInfo>& exams() const;          // sorted by ordinal
  const std::vector<Failure>& failures() const;  // those that no later revision of their exam voids
  std::vector<std::string> column_names() const;
  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;  // to open it
  std::size_t shard_count() const;
  std::uint64_t thumbnail_bytes() const;  // of all exams' thumbnails; 0: there are none

  // Index into exams(); npos when there is none.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  std::size_t find(const std::string& id) const;

  // The revision for extracting an exam again: 0 when nothing is known of it, else one more than
  // that of its features and its failures.
  std::uint32_t next_revision(const std::string& id) const;

  // XXH3-64 of the exam's rows as stored: one per view, equal for equal features in equal storage,
  // and behind them, where there is a cut, one per view of it.
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const;

  // Features of one exam as float32, row-major [T, D]; rows of missing frames are NaN. Checks the
  // exam's checksum. Thread-safe.
  std::vector<float> features(std::size_t exam, const std::string& view = "clean") const;

  // The same for each of `exams` in turn, read ahead in large pieces: for whoever goes through
  // many. `body` runs on this thread.
  using Visit = std::function<void(std::size_t exam, std::span<const float> features)>;
  void scan(const std::string& view, std::span<const std::size_t> exams, const Visit& body) const;
  // Hands over rows as stored: [T, D] little-endian values of type storage().
  using VisitStored = std::function<void(std::size_t exam, std::span<const std::byte> rows)>;
  void scan_stored(const std::string& view, std::span<const std::size_t> exams,
                   const VisitStored& body) const;

  // The cut that is stored beside the features; nullopt: none.
  std::optional<Cut> cut() const;
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

 private:
  std::size_t view_index(const std::string& view) const;
  std::size_t cut_array(std::size_t view) const;

  std::unique_ptr<ShardSet> shards_;
};

}  // namespace coldframe::cache
