#include "train_temporal/data/sequences/merged_streams.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "common/cli/error.h"
#include "common/numbers/instants.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

using Place = MergedStreams::Place;

std::vector<std::string> names_in(std::span<const cache::ExamInfo> exams,
                                  const std::string& column) {
  std::set<std::string> names;
  for (const cache::ExamInfo& exam : exams)
    if (const cache::FrameColumn* streams = frame_column(exam, column))
      names.insert(streams->values.begin(), streams->values.end());
  names.erase("");
  return {names.begin(), names.end()};
}

// The number of each frame's stream.
std::vector<std::size_t> streams_of(const cache::ExamInfo& exam, const std::string& column,
                                    const std::vector<std::string>& names) {
  std::vector<std::size_t> streams;
  const cache::FrameColumn* values = frame_column(exam, column);
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    const std::string value = values ? values->values[frame] : "";
    const auto found = std::ranges::find(names, value);
    if (found == names.end())
      throw DataError(concat("exam '", exam.id, "': frame ", frame, " has the ", column, " '",
                             value, "', expected one of ", join(names, ", ")));
    streams.push_back(static_cast<std::size_t>(found - names.begin()));
  }
  return streams;
}

std::vector<Place> places_of(const cache::ExamInfo& exam, const std::vector<std::size_t>& streams) {
  const std::vector<std::size_t> instants = instants_of(exam.time_s, streams);
  std::vector<Place> places;
  for (std::size_t frame = 0; frame < streams.size(); ++frame)
    places.push_back({instants[frame], streams[frame]});
  return places;
}

// "FA+ICGA": the streams of which an exam has a frame.
std::string names_of(const cache::ExamInfo& exam, const std::vector<Place>& places,
                     const std::vector<std::string>& names) {
  std::vector<std::string> seen;
  for (std::size_t s = 0; s < names.size(); ++s)
    if (has_stream(exam, places, s)) seen.push_back(names[s]);
  return join(seen, "+");
}

void add_column(cache::ExamInfo& info, const std::string& streams) {
  const auto taken = std::ranges::find(info.columns, kStreamsColumn, &cache::ExamColumn::name);
  if (taken == info.columns.end()) info.columns.push_back({kStreamsColumn, streams});
}

// The first value that is not empty, of the frames that are there or, at an instant without one, of
// all. Frames come in reverse.
void take(std::string& to, const std::string& value, bool is_taken) {
  if (is_taken && !value.empty()) to = value;
}

// The exam with an instant's frames as one. Of these the one that is stored first gives its time,
// and the first that has them file and values.
cache::ExamInfo merged_info(const cache::ExamInfo& exam, const std::vector<Place>& places,
                            const std::string& column, const std::vector<std::string>& names) {
  cache::ExamInfo info = exam;
  add_column(info, names_of(exam, places, names));
  std::erase_if(info.frame_columns,
                [&](const cache::FrameColumn& one) { return one.name == column; });
  std::size_t instants = 0;
  for (const Place& place : places) instants = std::max(instants, place.instant + 1);
  info.time_s.assign(instants, cache::kUnknownTime);
  info.present.assign(instants, 0);
  info.frame_index.clear();
  info.frame_source.assign(exam.frame_source.empty() ? 0 : instants, "");
  for (cache::FrameColumn& one : info.frame_columns) one.values.assign(instants, "");
  for (std::size_t frame = places.size(); frame-- > 0;) {
    info.time_s[places[frame].instant] = exam.time_s[frame];
    info.present[places[frame].instant] |= exam.present[frame];
  }
  for (std::size_t frame = places.size(); frame-- > 0;) {
    const std::size_t at = places[frame].instant;
    const bool is_taken = exam.present[frame] || !info.present[at];
    if (!info.frame_source.empty()) take(info.frame_source[at], exam.frame_source[frame], is_taken);
    for (cache::FrameColumn& one : info.frame_columns)
      take(one.values[at], frame_column(exam, one.name)->values[frame], is_taken);
  }
  return info;
}

template <typename Bits>
void fill(std::span<std::byte> row, Bits value) {
  for (std::size_t at = 0; at < row.size(); at += sizeof value)
    std::memcpy(row.data() + at, &value, sizeof value);
}

// The columns of which frames of one instant have different values.
std::set<std::string> disputed_columns(const cache::ExamInfo& exam, const cache::ExamInfo& merged,
                                       const std::vector<Place>& places) {
  std::set<std::string> names;
  for (const cache::FrameColumn& column : merged.frame_columns) {
    const std::vector<std::string>& values = frame_column(exam, column.name)->values;
    for (std::size_t frame = 0; frame < places.size(); ++frame)
      if (exam.present[frame] && !values[frame].empty() &&
          values[frame] != column.values[places[frame].instant])
        names.insert(column.name);
  }
  return names;
}

}  // namespace

MergedStreams merge_streams(std::span<const cache::ExamInfo> exams, const std::string& column,
                            std::vector<std::string> names) {
  const auto has_column = [&](const cache::ExamInfo& exam) {
    return frame_column(exam, column) != nullptr;
  };
  if (std::ranges::none_of(exams, has_column))
    throw DataError(concat("the cache has no frame column '", column,
                           "'; extract it again with --frame-columns ", column,
                           ", or give a cache of each stream, --cache NAME=PATH,NAME=PATH"));
  if (names.empty()) names = names_in(exams, column);
  if (names.size() < 2)
    throw DataError(concat("the frame column '", column, "' names ", plural(names.size(), "stream"),
                           ", expected two or more"));
  MergedStreams merged{std::move(names), {}, {}, {}};
  for (const cache::ExamInfo& exam : exams) {
    merged.places.push_back(places_of(exam, streams_of(exam, column, merged.names)));
    merged.exams.push_back(merged_info(exam, merged.places.back(), column, merged.names));
    for (const std::string& name :
         disputed_columns(exam, merged.exams.back(), merged.places.back()))
      merged.disputed.emplace(name, exam.id);
  }
  return merged;
}

bool has_stream(const cache::ExamInfo& stored, std::span<const MergedStreams::Place> places,
                std::size_t stream) {
  for (std::size_t frame = 0; frame < places.size(); ++frame)
    if (stored.present[frame] && places[frame].stream == stream) return true;
  return false;
}

StreamMatches count_matches(std::span<const cache::ExamInfo> stored, const MergedStreams& merged) {
  StreamMatches matches;
  for (std::size_t e = 0; e < stored.size(); ++e) {
    std::map<std::size_t, std::set<std::size_t>> at;  // streams at an instant
    std::set<std::size_t> streams;
    for (std::size_t frame = 0; frame < merged.places[e].size(); ++frame) {
      if (!stored[e].present[frame]) continue;
      const auto& [instant, stream] = merged.places[e][frame];
      at[instant].insert(stream);
      streams.insert(stream);
    }
    matches.exams += !streams.empty();
    matches.matched_exams += streams.size() > 1;
    matches.instants += at.size();
    for (const auto& [instant, there] : at) matches.matched_instants += there.size() > 1;
  }
  return matches;
}

void merge_rows(const cache::ExamInfo& stored, std::span<const MergedStreams::Place> places,
                std::size_t streams, std::size_t value_bytes, std::span<const std::byte> rows,
                std::span<std::byte> merged) {
  constexpr std::uint16_t kHalfNan = 0x7e00, kHalfOne = 0x3c00;
  const bool half = value_bytes == sizeof(std::uint16_t);
  if (half)
    fill(merged, kHalfNan);
  else
    fill(merged, std::numeric_limits<float>::quiet_NaN());
  const std::size_t from = places.empty() ? 0 : rows.size() / places.size();  // bytes of a row
  const std::size_t to = streams * (from + value_bytes);
  for (std::size_t row = 0; row < merged.size(); row += to)
    std::memset(merged.data() + row + streams * from, 0, streams * value_bytes);
  for (std::size_t frame = 0; frame < places.size(); ++frame) {
    if (!stored.present[frame]) continue;
    const auto [instant, stream] = places[frame];
    std::byte* row = merged.data() + instant * to;
    std::memcpy(row + stream * from, rows.data() + frame * from, from);
    const float one = 1;
    std::memcpy(row + streams * from + stream * value_bytes,
                half ? static_cast<const void*>(&kHalfOne) : &one, value_bytes);
  }
}

}  // namespace coldframe::temporal
