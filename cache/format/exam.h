// The value types that go into a cache and come out of it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache {

inline constexpr double kUnknownTime = std::numeric_limits<double>::quiet_NaN();

// A column of the manifest: one text value per exam.
struct ExamColumn {
  std::string name, value;
  bool operator==(const ExamColumn&) const = default;
};

// A column named in --frame-columns: one text value per frame.
struct FrameColumn {
  std::string name;
  std::vector<std::string> values;  // [T]
  bool operator==(const FrameColumn&) const = default;
};

// All that is known of an exam besides its features. T = frames.size().
struct ExamInfo {
  std::string id;
  std::string patient;         // empty: unknown
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // the highest of equal ids holds
  double start_time =
      kUnknownTime;  // of the first frame, Unix seconds, if absolute times are known
  double elapsed_start =
      kUnknownTime;  // of the first frame, seconds since a zero that all exams of the input share
                     // (an injection, an admission), if the input states times so
  std::string
      source_stamp;  // sizes and modification times of the source files: the quick staleness check
  std::string source_digest;  // XXH3-128 over the source files' content
  std::string source_kind;    // "images", "video", … (the registry's name of the reader)
  std::int32_t frame_width = 0,
               frame_height = 0;  // of the first present frame, before preprocessing

  std::vector<double> time_s;  // [T] seconds since the exam's first frame, NaN if unknown
  std::vector<std::uint8_t>
      present;  // [T] 0: a missing frame that keeps its slot (its features are NaN)
  std::vector<std::int64_t> frame_index;  // [T] index of the frame in its source
  std::vector<std::string> frame_source;  // [T] the file that it came from, as the input named it

  std::vector<ExamColumn> columns;
  std::vector<FrameColumn> frame_columns;

  std::size_t frames() const { return present.size(); }
};

std::size_t present_frames(const ExamInfo& exam);
std::size_t missing_frames(const ExamInfo& exam);

// An exam's value in a column, "" when it has none.
const std::string& column_value(const ExamInfo& exam, const std::string& column);
// The columns of exams, in order of first appearance.
std::vector<std::string> column_names(std::span<const ExamInfo> exams);
const FrameColumn* frame_column(const ExamInfo& exam, const std::string& name);  // null: none

// The metadata to load. kWithoutPaths leaves out half of it, which nobody needs who reads features:
// frame_source and source_stamp are empty. kWithoutSources leaves out all that grows with the
// frames' paths: so are frame_index, the values of frame columns and source_digest.
enum class Detail { kAll, kWithoutPaths, kWithoutSources };

// The features of one view of one exam, row-major [T, D].
struct ViewFeatures {
  std::string view = "clean";
  std::vector<float> values;
  // The rows that enter the cut, as the cache stores them, [T, Cut::row_bytes()]. Empty, unless the
  // recipe has a cut.
  std::vector<std::byte> cut = {};
};

struct ExamFeatures {
  ExamInfo info;
  std::vector<ViewFeatures> views;
  // [T] a small JPEG file of each frame, "" for a frame without one. Empty, unless the recipe says
  // that the cache stores them.
  std::vector<std::string> thumbnails = {};
};

// What could not be read, or not be stored: an exam, or frames of one that keep their slots,
// masked. A later revision of the exam voids it.
struct Failure {
  std::string exam;
  std::uint64_t ordinal = 0;
  std::uint32_t revision = 0;
  std::string source;  // file and frame, where known
  std::string reason;
  // Number of frames masked for this reason; 0: the whole exam failed. Caches do not store it:
  // there is_of_frames() tells the two apart.
  std::size_t frames = 0;
};

// True of a failure that tells why frames of the exam are masked: it is of the revision that holds.
inline bool is_of_frames(const Failure& failure, const ExamInfo& exam) {
  return failure.exam == exam.id && failure.revision == exam.revision;
}

// Tombstone: a failure row without an exam, which reserves the ordinal of a deliberately deleted
// exam. It is not a failure; readers do not list it.
inline Failure tombstone(std::uint64_t ordinal) {
  return {"", ordinal, 0, "", "taken out"};
}

// Columns are text in the files; what they mean is inferred over a whole cache.

enum class ColumnType { kInteger, kNumber, kText };
const char* column_type_name(ColumnType type);  // "integer", "number", "text"

// Missing values (is_missing()) do not count. "007" is text: as a number it would lose its zeros.
ColumnType infer_type(const std::vector<std::string>& values);
ColumnType infer_type(const std::vector<ExamInfo>& exams, const std::string& column);

// The column of exams that parts them for training, and what its words mean: "train", "validation"
// or "test"; "" for another word.
inline constexpr const char* kSplitColumn = "split";
std::string_view split_part(std::string_view word);

}  // namespace coldframe::cache
