// Several caches, one of each stream, as one list of exams: an exam has the frames that the first
// cache has of it, and behind them those of the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/reader.h"

namespace coldframe::temporal {

// A cache that holds one stream of the exams.
struct NamedCache {
  std::string name;  // of the stream; empty: the only cache
  std::filesystem::path path;
};

// The frame column of exams of several caches that names each frame's own, and the key of a recipe
// whose caches differ, under which each has its own by name.
inline constexpr const char* kStreamColumn = "stream";
inline constexpr const char* kRecipesOfStreams = "streams";

struct StackedCaches {
  struct Part {  // an exam of one of the caches
    std::size_t cache, exam;
  };
  std::vector<std::string> names;  // of the caches' streams
  cache::Recipe recipe;
  std::vector<cache::ExamInfo> exams;
  std::vector<std::vector<Part>> parts;               // [exam] in the order of frames
  std::vector<std::vector<std::uint64_t>> checksums;  // [exam][view] of its parts' checksums
  std::vector<cache::Failure> failures;
  // What is said of a column of which two caches have different values for an exam.
  std::map<std::string, std::string> contradictions;
};

// Matches exams by id: an exam's start is the earliest, and frames' times count from there where
// all caches know when it began, else from each cache's own first frame. Patient and columns are
// those of the first cache that has a value. `caches`: as `named` says, two or more. CacheError:
// features of different width, storage or views. DataError: an exam that is of two patients.
StackedCaches stack_caches(std::span<const cache::CacheReader> caches,
                           std::span<const NamedCache> named);

// Does what CacheReader::scan_stored() does, for the exams of `stacked`.
void scan_stacked(std::span<const cache::CacheReader> caches, const StackedCaches& stacked,
                  const std::string& view, std::span<const std::size_t> exams,
                  const cache::CacheReader::VisitStored& body);

// Frames of several streams (FA and ICGA, T1 and T2, B-mode and Doppler) as one row per instant.

// A row of merged features is that of each stream, [D] each, and behind them for each stream 1
// where it has a frame at that instant. The features of a stream that has none there are NaN.
inline std::size_t merged_width(std::size_t dimension, std::size_t streams) {
  return streams * (dimension + 1);
}

// The values of a frame column, but for empty ones, in the order of their letters.
std::vector<std::string> stream_names(std::span<const cache::ExamInfo> exams,
                                      const std::string& column);

// Exams get a column of this name, unless they have one: the streams that they have, "FA+ICGA".
inline constexpr const char* kStreamsColumn = "streams";

struct MergedStreams {
  struct Place {  // of a stored frame
    std::size_t instant, stream;
  };
  std::vector<std::string> names;          // in the order of their features
  std::vector<cache::ExamInfo> exams;      // whose frames are instants
  std::vector<std::vector<Place>> places;  // [exam][frame as stored]
  // Frame columns with different values within an instant, and the first exam that has such.
  std::map<std::string, std::string> disputed;
};

// `column`: the frame column that names each frame's stream. `names`: those to merge, in this
// order; empty: all that there are, sorted. instants_of() says which frames are of one instant. An
// instant has the first value in other frame columns that is not empty, of the frames
// that are there. DataError: no such column, a frame without a stream, one that is not among
// `names`, fewer than two streams.
MergedStreams merge_streams(std::span<const cache::ExamInfo> exams, const std::string& column,
                            std::vector<std::string> names);

// True where a stored exam has a frame of that stream.
bool has_stream(const cache::ExamInfo& stored, std::span<const MergedStreams::Place> places,
                std::size_t stream);

// Exams and instants with a frame, and those of more than one stream.
struct StreamMatches {
  std::size_t exams = 0, matched_exams = 0, instants = 0, matched_instants = 0;
};
StreamMatches count_matches(std::span<const cache::ExamInfo> stored, const MergedStreams& merged);

// The merged rows of an exam, [instants, merged_width()], from those stored. `value_bytes`: of a
// feature, 2 (float16) or 4 (float32).
void merge_rows(const cache::ExamInfo& stored, std::span<const MergedStreams::Place> places,
                std::size_t streams, std::size_t value_bytes, std::span<const std::byte> rows,
                std::span<std::byte> merged);

// Exams that are read as one with earlier ones, so that a sequence spans several visits.

struct JoinedExams {
  std::vector<cache::ExamInfo> exams;           // of a cache, each with the frames of all its parts
  std::vector<std::vector<std::size_t>> parts;  // [exam] in the order of frames; the last is itself
};

// `parts`: of every exam, by index, the last being the exam itself. `begin_s`: when each exam
// began, in seconds. A frame's time is its own within its part plus the part's begin; of a part
// without known times the first frame has the begin. Frames keep their values per frame and their
// files, but no index, which means nothing across sources. An exam that is its only part stays as
// it is.
JoinedExams join_exams(std::span<const cache::ExamInfo> exams,
                       std::vector<std::vector<std::size_t>> parts,
                       std::span<const double> begin_s);

// The exams as training and prediction read them: of one cache or of several as one, frames of
// several streams merged by instant, earlier visits joined to each exam.

class SequenceReader {
 public:
  using VisitStored = cache::CacheReader::VisitStored;

  // Errors as CacheReader's and stack_caches()'s. Of several caches there are neither thumbnails
  // nor a cut.
  explicit SequenceReader(const std::filesystem::path& path,
                          cache::Detail detail = cache::Detail::kAll);
  explicit SequenceReader(std::span<const NamedCache> caches,
                          cache::Detail detail = cache::Detail::kAll);

  const cache::Recipe& recipe() const {
    return stacked_ ? stacked_->recipe : caches_.front().recipe();
  }
  std::int64_t dimension() const;  // D, or merged_width()
  DType storage() const { return caches_.front().storage(); }
  const std::vector<std::string>& views() const { return caches_.front().views(); }
  const std::vector<cache::ExamInfo>& exams() const { return joined_ ? joined_->exams : alone(); }
  const std::vector<cache::Failure>& failures() const {
    return stacked_ ? stacked_->failures : caches_.front().failures();
  }
  std::vector<std::string> column_names() const { return cache::column_names(exams()); }

  // From now on the frames that an exam has of several streams at an instant are one
  //: exams(), dimension() and features. The cut of such frames cannot be read.
  // Comes before join_exams().
  void merge_streams(const std::string& column, std::vector<std::string> names = {});
  const std::vector<std::string>& streams() const;      // empty: frames are as they are stored
  const std::vector<std::string>& cache_names() const;  // empty: of one
  // DataError, which names both, where caches contradict each other in a column of exams.
  void require_agreed(const std::string& column) const;

  // The first exam in which frames of one instant have different values in this frame column; "":
  // none.
  std::string disputed_in(const std::string& column) const;
  // After merge_streams().
  StreamMatches stream_matches() const { return count_matches(stored_exams(), *merged_); }
  // True where what is read as this exam has a frame of streams()[stream].
  bool has_stream(std::size_t exam, std::size_t stream) const;

  // From now on every exam is read as one with those before it: exams(), features,
  // cut and thumbnails. clean_checksums() remain those of the exam itself.
  void join_exams(std::vector<std::vector<std::size_t>> parts, std::span<const double> begin_s);
  // The exams that are read as this one, in the order of their frames; the last is itself.
  std::vector<std::size_t> parts_of(std::size_t exam) const;
  // Frames that are there in an exam by itself, without those that are joined to it.
  std::size_t own_frames(std::size_t exam) const { return present_frames(alone()[exam]); }

  // The checksum of the view "clean", of each cache that the exam's own frames come from.
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;
  // Tells what is read as this exam from anything else: revision and digest of its source, and of
  // exams that are joined or merged, these of each part, its checksums, and the instant and stream
  // of every frame.
  std::vector<std::string> provenance(std::size_t exam) const;

  // These do what CacheReader's functions of the same names do.
  void scan_stored(const std::string& view, std::span<const std::size_t> exams,
                   const VisitStored& body) const;
  std::optional<cache::Cut> cut() const;
  void scan_cut(std::size_t view, std::span<const std::size_t> exams,
                const VisitStored& body) const;
  std::vector<std::string> thumbnails(std::size_t exam) const;

 private:
  const std::vector<cache::ExamInfo>& alone() const {
    return merged_ ? merged_->exams : stored_exams();
  }
  const std::vector<cache::ExamInfo>& stored_exams() const {
    return stacked_ ? stacked_->exams : caches_.front().exams();
  }
  const std::vector<std::uint64_t>& checksums(std::size_t exam) const {
    return stacked_ ? stacked_->checksums[exam] : caches_.front().checksums(exam);
  }
  // parts_of(), without a copy; may view `exam` itself.
  std::span<const std::size_t> parts(const std::size_t& exam) const {
    return joined_ ? std::span<const std::size_t>(joined_->parts[exam]) : std::span(&exam, 1);
  }
  std::span<const std::size_t> parts(std::size_t&& exam) const = delete;
  // Hands over exam by exam what `scan` hands over part by part.
  template <typename Scan>
  void scan_parts(std::span<const std::size_t> exams, const Scan& scan,
                  const VisitStored& body) const;
  // The rows of a part as they are stored, behind `rows` as they are read.
  void append_rows(std::size_t part, std::span<const std::byte> stored,
                   std::vector<std::byte>& rows) const;

  std::vector<cache::CacheReader> caches_;
  std::optional<StackedCaches> stacked_;  // of several caches
  std::optional<MergedStreams> merged_;
  std::optional<JoinedExams> joined_;  // of what is merged
};

}  // namespace coldframe::temporal
