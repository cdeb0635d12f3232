#include "cache/maintain/exam_differences.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/text/text.h"

namespace coldframe::cache {
namespace {

bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// Columns by name, without those that are empty everywhere.
std::map<std::string, std::vector<std::string>> columns_of(const ExamInfo& exam) {
  std::map<std::string, std::vector<std::string>> columns;
  for (const ExamColumn& column : exam.columns)
    if (!column.value.empty()) columns["column " + column.name] = {column.value};
  for (const FrameColumn& column : exam.frame_columns)
    if (std::any_of(column.values.begin(), column.values.end(),
                    [](const std::string& value) { return !value.empty(); }))
      columns["frame column " + column.name] = column.values;
  return columns;
}

}  // namespace

std::vector<std::string> differences(const ExamInfo& before, const ExamInfo& after) {
  std::vector<std::string> found;
  const auto compare = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) found.push_back(concat(what, " '", a, "' -> '", b, "'"));
  };
  compare("patient", before.patient, after.patient);
  if (before.frames() != after.frames()) {
    compare("frames", concat(before.frames()), concat(after.frames()));
  } else {
    if (before.present != after.present) found.emplace_back("other frames are missing");
    if (!same_times(before.time_s, after.time_s) ||
        !same_times({before.start_time, before.elapsed_start},
                    {after.start_time, after.elapsed_start}))
      found.emplace_back("times");
    if (before.frame_index != after.frame_index) found.emplace_back("indices of frames");
  }
  auto old_columns = columns_of(before), new_columns = columns_of(after);
  for (const auto& [name, values] : new_columns) old_columns[name];
  for (const auto& [name, values] : old_columns) {
    const std::vector<std::string>& now = new_columns[name];
    if (values.size() <= 1 && now.size() <= 1)
      compare(name, values.empty() ? "" : values[0], now.empty() ? "" : now[0]);
    else if (values != now)
      found.push_back(name);
  }
  return found;
}

}  // namespace coldframe::cache
