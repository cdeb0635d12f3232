#include "train_temporal/splits/labels_file.h"

#include <algorithm>
#include <filesystem>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

std::map<std::string, std::size_t> rows_of_exams(const CsvTable& table, const std::string& column,
                                                 const std::vector<std::string>& spelt) {
  const std::size_t exam_column = table.require_column("exam");
  std::map<std::string, std::size_t> row_of;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::string& exam = table.rows[r][exam_column];
    if (exam.empty()) {
      throw DataError(concat(table.name, " line ", table.lines[r], ": column 'exam' is empty"));
    }
    const auto [known, added] = row_of.emplace(exam, r);
    if (!added && spelt[known->second] != spelt[r]) {
      throw DataError(concat(table.name, " line ", table.lines[r], ": exam '", exam, "' has '",
                             column, "' = '", spelt[r], "', but '", spelt[known->second],
                             "' on line ", table.lines[known->second], "; keep one of the two"));
    }
  }
  return row_of;
}

namespace {

void warn(Labels& labels, const std::vector<std::string>& exams, const std::string& what) {
  if (exams.empty()) return;
  labels.warnings.push_back(concat(plural(exams.size(), "exam"), what, ": ", some_of(exams)));
}

}  // namespace

Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options) {
  const std::size_t column = table.require_column(options.target);
  if (table.rows.empty()) {
    throw DataError(concat(table.name, " has a header and no rows; expected one for each exam"));
  }
  std::vector<std::string> spelt;  // the file's labels, then the cache's
  for (const auto& row : table.rows) spelt.push_back(row[column]);
  for (const auto& exam : exams) spelt.push_back(cache::column_value(exam, options.target));
  spelt = one_spelling(std::move(spelt)).values;
  std::map<std::string, std::size_t> row_of = rows_of_exams(table, options.target, spelt);
  std::vector<std::string> values, unlisted, conflicts, unknown;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const auto found = row_of.find(exams[i].id);
    if (found == row_of.end()) {
      unlisted.push_back(exams[i].id);
      values.emplace_back();
      continue;
    }
    values.push_back(table.rows[found->second][column]);
    const std::string& cached = spelt[table.rows.size() + i];
    if (!cached.empty() && cached != spelt[found->second]) conflicts.push_back(exams[i].id);
    row_of.erase(found);
  }
  for (const auto& [exam, row] : row_of) unknown.push_back(exam);
  if (unlisted.size() == exams.size()) {
    throw DataError(concat(table.name, " lists no exam of the cache; it has ", some_of(unknown),
                           ", the cache has ", some_of(unlisted)));
  }
  Labels labels;
  // Reports carry no path.
  const std::string name = std::filesystem::path(table.name).filename().string();
  warn(labels, conflicts,
       concat(" whose '", options.target, "' in ", name,
              " differs from the cache's (the file's is used)"));
  warn(labels, unknown, concat(" of ", name, " not in the cache (ignored)"));
  warn(labels, unlisted, concat(" of the cache not in ", name, " (no label)"));
  return labels_from_values(std::move(values), exams, options, std::move(labels));
}

}  // namespace coldframe::temporal
