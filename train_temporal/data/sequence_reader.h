// Presents several caches, one per stream, as one list of exams: an exam has its frames of the
// first cache, followed by those of the next.
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

// A cache with one stream of the exams.
struct NamedCache {
  std::string name;  // of the stream; empty: the only cache
  std::filesystem::path path;
};

// With several caches: the frame column that names each frame's cache, and the recipe key that
// holds each cache's recipe by name if they differ.
inline constexpr const char* kStreamColumn = "stream";
inline constexpr const char* kRecipesOfStreams = "streams";

struct StackedCaches {
  struct CacheExam {  // one cache's part of an exam
    std::size_t cache, exam;
  };
  std::vector<std::string> names;  // of the caches' streams
  cache::Recipe recipe;
  std::vector<cache::ExamInfo> exams;
  std::vector<std::vector<CacheExam>> parts;          // [exam] in the order of frames
  std::vector<std::vector<std::uint64_t>> checksums;  // [exam][view] combined over its parts
  std::vector<cache::Failure> failures;
  // By column: the message that two caches have different values for an exam.
  std::map<std::string, std::string> contradictions;
};

// Matches exams by id. An exam starts at its earliest start; frame times count from there if all
// caches state when it began, else from each cache's own first frame. Patient and columns come from
// the first cache that has a value. `caches`: those of `named`, two or more. CacheError: features
// differ in width, storage or views. DataError: an exam belongs to two patients.
StackedCaches stack_caches(std::span<const cache::CacheReader> caches,
                           std::span<const NamedCache> named);

// CacheReader::scan_stored() for the exams of `stacked`.
void scan_stacked(std::span<const cache::CacheReader> caches, const StackedCaches& stacked,
                  const std::string& view, std::span<const std::size_t> exams,
                  const cache::CacheReader::VisitStored& body);

// Merges frames of several streams (FA and ICGA, T1 and T2, B-mode and Doppler) into one row per
// instant.

// A merged row concatenates the features of all streams, [D] each, then one flag per stream: 1 if
// it has a frame at that instant. The features of a stream without a frame there are NaN.
inline std::size_t merged_width(std::size_t dimension, std::size_t streams) {
  return streams * (dimension + 1);
}

// The non-empty values of a frame column, in alphabetical order.
std::vector<std::string> stream_names(std::span<const cache::ExamInfo> exams,
                                      const std::string& column);

// Merging adds this exam column, unless it exists: the exam's streams, "FA+ICGA".
inline constexpr const char* kStreamsColumn = "streams";

struct MergedStreams {
  struct StreamFrame {  // of a stored frame
    std::size_t instant, stream;
  };
  std::vector<std::string> names;                // in the order of their features
  std::vector<cache::ExamInfo> exams;            // whose frames are instants
  std::vector<std::vector<StreamFrame>> places;  // [exam][frame as stored]
  // Frame columns whose values differ within an instant, and the first exam where they do.
  std::map<std::string, std::string> disputed;
};

// `column`: the frame column that names each frame's stream. `names`: the streams to merge, in this
// order; empty: all, sorted. instants_of() determines which frames share an instant. In other frame
// columns an instant takes the first non-empty value of its present frames. DataError: no such
// column, a frame without a stream or with one not in `names`, fewer than two streams.
MergedStreams merge_streams(std::span<const cache::ExamInfo> exams, const std::string& column,
                            std::vector<std::string> names);

// True if the stored exam has a frame of that stream.
bool has_stream(const cache::ExamInfo& stored, std::span<const MergedStreams::StreamFrame> places,
                std::size_t stream);

// Counts exams and instants with a frame, and those with more than one stream.
struct StreamMatches {
  std::size_t exams = 0, matched_exams = 0, instants = 0, matched_instants = 0;
};
StreamMatches count_matches(std::span<const cache::ExamInfo> stored, const MergedStreams& merged);

// Makes the merged rows of an exam, [instants, merged_width()], from the stored rows.
// `value_bytes`: size of a feature, 2 (float16) or 4 (float32).
void merge_rows(const cache::ExamInfo& stored, std::span<const MergedStreams::StreamFrame> places,
                std::size_t streams, std::size_t value_bytes, std::span<const std::byte> rows,
                std::span<std::byte> merged);

// Exams joined with earlier ones, so that a sequence spans several visits.

struct JoinedExams {
  std::vector<cache::ExamInfo> exams;           // of a cache, each with the frames of all its parts
  std::vector<std::vector<std::size_t>> parts;  // [exam] in the order of frames; the last is itself
};

// `parts`: of every exam, by index, the last being the exam itself. `begin_s`: start of each exam,
// in seconds. A frame's time is its time within its part plus the part's start; in a part without
// known times only the first frame gets a time, the start. Frames keep their frame columns and
// files but lose their index, which has no meaning across sources. An exam without earlier parts is
// unchanged.
JoinedExams join_exams(std::span<const cache::ExamInfo> exams,
                       std::vector<std::vector<std::size_t>> parts,
                       std::span<const double> begin_s);

// The exams as training and prediction read them: from one or several caches, with streams merged
// by instant and earlier visits joined to each exam.

class SequenceReader {
 public:
  using VisitStored = cache::CacheReader::VisitStored;

  // Throws what CacheReader and stack_caches() throw. Several caches have neither thumbnails nor a
  // cut.
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

  // From now on exams(), dimension() and features present an exam's frames of several streams at an
  // instant as one frame. The cut of such frames cannot be read. Call it before join_exams().
  void merge_streams(const std::string& column, std::vector<std::string> names = {});
  const std::vector<std::string>& streams() const;      // empty: frames are not merged
  const std::vector<std::string>& cache_names() const;  // empty: of one
  // Throws DataError, which names both, if two caches disagree in an exam column.
  void require_agreed(const std::string& column) const;

  // The first exam in which frames of one instant differ in this frame column; "": none.
  std::string disputed_in(const std::string& column) const;
  // Requires merge_streams().
  StreamMatches stream_matches() const { return count_matches(stored_exams(), *merged_); }
  // True if this exam, with all that is joined to it, has a frame of streams()[stream].
  bool has_stream(std::size_t exam, std::size_t stream) const;

  // From now on exams(), features, cut and thumbnails present every exam joined with its earlier
  // ones. clean_checksums() remain those of the exam alone.
  void join_exams(std::vector<std::vector<std::size_t>> parts, std::span<const double> begin_s);
  // The exams joined into this one, in frame order; the last is the exam itself.
  std::vector<std::size_t> parts_of(std::size_t exam) const;
  // An exam without those joined to it.
  const cache::ExamInfo& alone(std::size_t exam) const { return alone()[exam]; }

  // Checksums of the view "clean", one per cache that holds the exam's own frames.
  std::vector<std::uint64_t> clean_checksums(std::size_t exam) const;
  // Identifies the content of this exam: revision and digest of its source; for joined or merged
  // exams also those of each part, its checksums, and the instant and stream of every frame.
  std::vector<std::string> provenance(std::size_t exam) const;

  // Like CacheReader's functions of the same names.
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
  // Calls `body` exam by exam with what `scan` delivers part by part.
  template <typename Scan>
  void scan_parts(std::span<const std::size_t> exams, const Scan& scan,
                  const VisitStored& body) const;
  // Appends the stored rows of a part to `rows`, merged if streams are.
  void append_rows(std::size_t part, std::span<const std::byte> stored,
                   std::vector<std::byte>& rows) const;

  std::vector<cache::CacheReader> caches_;
  std::optional<StackedCaches> stacked_;  // of several caches
  std::optional<MergedStreams> merged_;
  std::optional<JoinedExams> joined_;  // of the merged exams
};

}  // namespace coldframe::temporal
