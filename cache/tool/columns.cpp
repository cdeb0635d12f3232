#include "cache/tool/columns.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cache/column_type.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

void add_range(Json& column, const std::map<std::string, std::size_t>& counts, bool integer) {
  double lowest = 0, highest = 0, sum = 0;
  std::size_t n = 0;
  for (const auto& [text, exams] : counts) {
    double value = 0;
    parse_double(text, value);
    lowest = n == 0 ? value : std::min(lowest, value);
    highest = n == 0 ? value : std::max(highest, value);
    sum += value * static_cast<double>(exams);
    n += exams;
  }
  // Integers look like integers as long as a double holds them exactly.
  integer = integer && std::max(std::abs(lowest), std::abs(highest)) < 9007199254740992.0;
  column["min"] = integer ? Json(static_cast<std::int64_t>(lowest)) : Json(lowest);
  column["max"] = integer ? Json(static_cast<std::int64_t>(highest)) : Json(highest);
  column["mean"] = sum / static_cast<double>(n);
}

Json describe(const CacheReader& cache, const std::string& name, std::size_t most_values) {
  std::map<std::string, std::size_t> counts;
  std::size_t missing = 0;
  for (const ExamInfo& exam : cache.exams()) {
    const std::string& value = column_value(exam, name);
    value.empty() ? ++missing : ++counts[value];
  }
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  frequent.resize(std::min(frequent.size(), most_values));
  const ColumnType type = infer_type(cache.exams(), name);
  Json column = Json::object();
  column["name"] = name;
  column["type"] = column_type_name(type);
  column["values"] = cache.exams().size() - missing;
  column["missing"] = missing;
  column["distinct"] = counts.size();
  column["counts"] = Json::array();
  for (const auto& [value, exams] : frequent)
    column["counts"].push_back(Json{{"value", value}, {"exams", exams}});
  if (type != ColumnType::kText) add_range(column, counts, type == ColumnType::kInteger);
  return column;
}

}  // namespace

Json describe_columns(const CacheReader& cache, std::size_t most_values) {
  Json columns = Json::array();
  for (const std::string& name : cache.column_names())
    columns.push_back(describe(cache, name, most_values));
  return columns;
}

}  // namespace coldframe::cache
