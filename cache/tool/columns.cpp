#include "cache/tool/columns.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cache/format/column_type.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
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

Json describe(const CacheReader& cache, std::span<const std::size_t> exams, const std::string& name,
              std::size_t most_values) {
  std::map<std::string, std::size_t> counts;
  std::size_t missing = 0;
  for (const std::size_t exam : exams) {
    const std::string& value = column_value(cache.exams()[exam], name);
    is_missing(value) ? ++missing : ++counts[trim(value)];
  }
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  frequent.resize(std::min(frequent.size(), most_values));
  const ColumnType type = infer_type(cache.exams(), name);
  Json column = Json::object();
  column["name"] = name;
  column["type"] = column_type_name(type);
  column["values"] = exams.size() - missing;
  column["missing"] = missing;
  column["distinct"] = counts.size();
  column["counts"] = Json::array();
  for (const auto& [value, times] : frequent)
    column["counts"].push_back(Json{{"value", value}, {"exams", times}});
  if (type != ColumnType::kText && !counts.empty())
    add_range(column, counts, type == ColumnType::kInteger);
  return column;
}

}  // namespace

TextRows column_rows(const Json& columns) {
  TextRows rows;
  for (const Json& column : columns) {
    const Json &counts = column["counts"], &distinct = column["distinct"];
    std::string text = column["type"].get<std::string>();
    if (distinct > counts.size() && column.contains("min"))
      text += concat(", ", column["min"].dump(), " to ", column["max"].dump());
    else if (distinct > counts.size())
      text += concat(", ", distinct.dump(), " distinct values");
    else
      for (const Json& count : counts)
        text += concat(&count == &counts[0] ? ": " : ", ", count["value"].get<std::string>(), " ×",
                       count["exams"].dump());
    if (column["missing"] != 0) text += concat("; ", column["missing"].dump(), " without a value");
    rows.push_back({"  " + column["name"].get<std::string>(), text});
  }
  return rows;
}

Json describe_columns(const CacheReader& cache, std::span<const std::size_t> exams,
                      std::size_t most_values) {
  Json columns = Json::array();
  for (const std::string& name : cache.column_names())
    columns.push_back(describe(cache, exams, name, most_values));
  return columns;
}

}  // namespace coldframe::cache::tool
