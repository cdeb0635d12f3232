// Frames of several streams (FA and ICGA, T1 and T2, B-mode and Doppler) as one row per instant.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::temporal {

// A row of merged features is that of each stream, [D] each, and behind them for each stream 1
// where it has a frame at that instant. The features of a stream that has none there are NaN.
inline std::size_t merged_width(std::size_t dimension, std::size_t streams) {
  return streams * (dimension + 1);
}

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

}  // namespace coldframe::temporal
