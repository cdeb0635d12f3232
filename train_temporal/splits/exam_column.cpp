#include "train_temporal/splits/exam_column.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/splits/labels_file.h"

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

// Numbers each by itself, so that the values of other exams change none.
std::string clean(std::vector<std::string>& values) {
  for (std::string& value : values) {
    value = cleaned(value);
    if (is_plain_number(value)) value = one_spelling(value);
  }
  return unify_spelling(values);
}

std::vector<std::string> column_of_file(std::span<const cache::ExamInfo> exams,
                                        const CsvTable& labels, const std::string& column) {
  std::vector<std::string> of_rows;
  for (const auto& row : labels.rows) of_rows.push_back(row[*labels.column(column)]);
  std::vector<std::string> spelt = of_rows;
  clean(spelt);
  const auto row_of = rows_of_exams(labels, column, spelt);
  std::vector<std::string> values;
  for (const cache::ExamInfo& exam : exams) {
    const auto found = row_of.find(exam.id);
    values.push_back(found == row_of.end() ? "" : of_rows[found->second]);
  }
  return values;
}

std::vector<std::string> column_of_cache(std::span<const cache::ExamInfo> exams,
                                         const std::string& column, const std::string& option,
                                         bool has_labels) {
  std::vector<std::string> values;
  std::set<std::string> known;
  for (const cache::ExamInfo& exam : exams) {
    for (const cache::ExamColumn& each : exam.columns) known.insert(each.name);
    values.push_back(cache::column_value(exam, column));
  }
  if (!known.contains(column))
    throw ConfigError(concat("--", option, " ", column, ": the cache",
                             has_labels ? " and --labels have" : " has",
                             " no such column of exams; the cache has ",
                             known.empty() ? "none" : join({known.begin(), known.end()}, ", ")));
  return values;
}

}  // namespace

std::vector<std::string> exam_column(std::span<const cache::ExamInfo> exams, const CsvTable* labels,
                                     const std::string& column, const std::string& option,
                                     std::vector<std::string>& warnings) {
  std::vector<std::string> values = labels != nullptr && labels->column(column)
                                        ? column_of_file(exams, *labels, column)
                                        : column_of_cache(exams, column, option, labels != nullptr);
  if (const std::string changes = clean(values); !changes.empty())
    warnings.push_back(tell_changes(column, changes));
  return values;
}

}  // namespace coldframe::temporal
