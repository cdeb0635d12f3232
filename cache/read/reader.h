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
#include "cache/read/merged_streams.h"

namespace coldframe::cache {

// A cache that holds one stream of the exams.
struct NamedCache {
  std::string name;  // of the stream; empty: the only cache
  std::filesystem::path path;
};

// The frame column of exams of several caches that names each frame's own, and the key of a recipe
// whose caches differ, under which each has its own by name.
inline constexpr const char* kStreamColumn = "stream";
inline constexpr const char* kRecipesOfStreams = "streams";

class CacheReader {
 public:
  // CacheError: nothing there, not a cache, damaged, shards of several recipes.
  explicit CacheReader(const std::filesystem::path& path, Detail detail = Detail::kAll);
  // Several caches as one, matched by the exams' ids: an exam has the frames of each behind one
  // another, its start is the earliest, and frames' times count from there where all caches know
  // when it began, else from each cache's own first frame. Patient and columns are those of the
  // first cache that has a value. There are neither thumbnails nor a cut. CacheError: as above,
  // features of different width, storage or views. DataError: an exam of two patients.
  explicit CacheReader(std::span<const NamedCache> caches, Detail detail = Detail::kAll);
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
  std::vector<std::string> column_names() const;  // of exams, in order of first appearance
  std::uint64_t bytes_on_disk() const;
  std::uint64_t bytes_read() const;  // to open it
  std::size_t shard_count() const;
  std::uint64_t thumbnail_bytes() const;  // of all exams' thumbnails; 0: there are none

  // From now on the frames that an exam has of several streams at an instant are one
  // (merged_streams.h): exams(), dimension() and features. The cut of such frames cannot be read.
  // Comes before join_exams().
  void merge_streams(const std::string& column, std::vector<std::string> names = {});
  const std::vector<std::string>& streams() const;      // empty: frames are as they are stored
  const std::vector<std::string>& cache_names() const;  // of several caches; empty: of one
  // DataError, which names both, where caches contradict each other in a column of exams.
  void require_agreed(const std::string& column) const;

  // The first exam in which frames of one instant have different values in this frame column; "":
  // none.
  std::string disputed_in(const std::string& column) const;
  StreamMatches stream_matches() const;
  // True where what is read as this exam has a frame of streams()[stream].
  bool has_stream(std::size_t exam, std::size_t stream) const;

  // From now on every exam is read as one with those before it (joined_exams.h): exams(), features,
  // cut and thumbnails. Checksums remain those of the exam itself.
  void join_exams(std::vector<std::vector<std::size_t>> parts, std::span<const double> begin_s);
  // The exams that are read as this one, in the order of their frames; the last is itself.
  std::vector<std::size_t> parts_of(std::size_t exam) const;
  // Frames that are there in an exam by itself, without those that are joined to it.
  std::size_t own_frames(std::size_t exam) const;

  // Index into exams(); npos when there is none.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  std::size_t find(const std::string& id) const;

  // The revision for extracting an exam again: 0 when nothing is known of it, else one more than
  // that of its features and its failures.
  std::uint32_t next_revision(const std::string& id) const;

  // XXH3-64 of the exam's rows as stored: one per view, equal for equal features in equal storage,
  // and behind them, where there is a cut, one per view of it.
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const;
  // The first of these, of each cache that the exam's own frames come from.
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;

  // Tells what is read as this exam from anything else: revision and digest of its source, and of
  // exams that are joined or merged, these of each part, its checksums, and the instant and stream
  // of every frame.
  std::vector<std::string> provenance(std::size_t exam) const;

  // Features of one exam as float32, row-major [T, D]; rows of missing frames are NaN. Checks the
  // exam's checksum. Thread-safe.
  std::vector<float> features(std::size_t exam, const std::string& view = "clean") const;
  void read_features(std::size_t exam, const std::string& view, std::span<float> destination) const;

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
  struct State;
  std::unique_ptr<State> state_;
};

// An exam's value in a column, "" when it has none.
const std::string& column_value(const ExamInfo& exam, const std::string& column);

}  // namespace coldframe::cache
