#include "train_temporal/data/sequences/joined_exams.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace coldframe::temporal {
namespace {

void append_values(std::vector<cache::FrameColumn>& columns, const cache::ExamInfo& part,
                   std::size_t before) {
  for (cache::FrameColumn& column : columns) {
    if (const cache::FrameColumn* own = frame_column(part, column.name))
      std::ranges::copy(own->values, std::back_inserter(column.values));
    column.values.resize(before + part.frames());
  }
}

void append_times(std::vector<double>& times, const cache::ExamInfo& part, double begin) {
  const std::size_t before = times.size();
  for (const double time : part.time_s) times.push_back(begin + time);
  const bool untimed = std::ranges::all_of(part.time_s, [](double t) { return std::isnan(t); });
  if (untimed && !part.time_s.empty()) times[before] = begin;
}

}  // namespace

JoinedExams join_exams(std::span<const cache::ExamInfo> exams,
                       std::vector<std::vector<std::size_t>> parts,
                       std::span<const double> begin_s) {
  JoinedExams joined{{exams.begin(), exams.end()}, std::move(parts)};
  for (std::size_t e = 0; e < exams.size(); ++e) {
    if (joined.parts[e].size() == 1) continue;
    cache::ExamInfo& info = joined.exams[e];
    info.time_s.clear();
    info.present.clear();
    info.frame_index.clear();
    info.frame_source.clear();
    for (cache::FrameColumn& column : info.frame_columns) column.values.clear();
    for (const std::size_t p : joined.parts[e]) {
      const cache::ExamInfo& part = exams[p];
      append_values(info.frame_columns, part, info.present.size());
      append_times(info.time_s, part, begin_s[p] - begin_s[joined.parts[e].front()]);
      std::ranges::copy(part.present, std::back_inserter(info.present));
      std::ranges::copy(part.frame_source, std::back_inserter(info.frame_source));
    }
  }
  return joined;
}

}  // namespace coldframe::temporal
