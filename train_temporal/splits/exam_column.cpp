#include "train_temporal/splits/exam_column.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "cache/read/reader.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/splits/label_values.h"

namespace coldframe::temporal {
namespace {

// "1.0", but neither a code like 007 nor 1E2.
bool is_plain_number(std::string_view value) {
  if (value.starts_with('-')) value.remove_prefix(1);
  const auto digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  if (value.size() > 1 && value[0] == '0' && digit(value[1])) return false;
  return !value.empty() && digit(value[0]) && digit(value.back()) &&
         std::ranges::all_of(value, [&](char letter) { return digit(letter) || letter == '.'; });
}

// Each by itself, so that the values of other exams change no spelling.
std::vector<std::string> spelt(std::vector<std::string> values) {
  for (std::string& value : values) {
    value = cleaned(value);
    if (is_plain_number(value)) value = one_spelling(value);
  }
  return values;
}

}  // namespace

std::vector<std::string> exam_column(std::span<const cache::ExamInfo> exams, const CsvTable* labels,
                                     const std::string& column, const std::string& option) {
  std::vector<std::string> values;
  if (labels != nullptr && labels->column(column)) {
    const std::size_t of = *labels->column(column), id = labels->require_column("exam");
    std::map<std::string, std::string> value_of;
    for (const auto& row : labels->rows) value_of[row[id]] = row[of];
    for (const cache::ExamInfo& exam : exams) values.push_back(value_of[exam.id]);
    return spelt(std::move(values));
  }
  std::set<std::string> known;
  for (const cache::ExamInfo& exam : exams) {
    for (const cache::ExamColumn& each : exam.columns) known.insert(each.name);
    values.push_back(cache::column_value(exam, column));
  }
  if (!known.contains(column))
    throw ConfigError(concat("--", option, " ", column, ": the cache",
                             labels != nullptr ? " and --labels have" : " has",
                             " no such column of exams; the cache has ",
                             known.empty() ? "none" : join({known.begin(), known.end()}, ", ")));
  return spelt(std::move(values));
}

}  // namespace coldframe::temporal
