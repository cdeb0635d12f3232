#include "train_temporal/splits/labels.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "cache/reader.h"
#include "common/error.h"
#include "common/text.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostClasses = 64;  // more is an identifier or a measurement, not a class

bool is_empty(const std::string& value) {
  const std::string word = lower(trim(value));
  return word.empty() || word == "nan" || word == "na" || word == "n/a";
}

// "a", "b", "c" and 4 more
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += concat(i ? ", '" : "'", names[i], "'");
  }
  if (names.size() > kShown) text += concat(" and ", names.size() - kShown, " more");
  return text;
}

std::string cleaned(const std::string& value) {
  return is_empty(value) ? "" : trim(value);
}

// A whole number as "1", however spelt ("1.0" is how pandas writes a column with gaps).
std::string one_spelling(const std::string& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are exact
  double number = 0;
  const bool whole =
      parse_double(value, number) && number == std::floor(number) && std::abs(number) < kExact;
  return whole ? concat(static_cast<long long>(number)) : value;
}

// One spelling per class in a column of numbers.
std::vector<std::string> one_spelling(std::vector<std::string> values) {
  double number = 0;
  for (std::string& value : values) value = cleaned(value);
  const bool numeric = std::ranges::all_of(values, [&](const std::string& value) {
    return value.empty() || (parse_double(value, number) && std::isfinite(number));
  });
  if (!numeric) return values;
  for (std::string& value : values) value = one_spelling(value);
  return values;
}

std::vector<std::string> distinct(const std::vector<std::string>& values) {
  std::vector<std::string> classes;
  const std::set<std::string> unique(values.begin(), values.end());
  std::ranges::copy_if(unique, std::back_inserter(classes), [](auto& v) { return !v.empty(); });
  // Exact order among values that natural order takes for equal, so that it is a total one.
  std::ranges::stable_sort(classes, natural_less);
  return classes;
}

void check_classes(const std::vector<std::string>& classes, const std::string& target) {
  if (classes.empty()) {
    throw DataError(concat("column '", target, "' is empty for every exam; nothing to learn from"));
  }
  if (classes.size() == 1) {
    throw DataError(concat("column '", target, "' holds one class only: every label is '",
                           classes[0], "'; two are needed"));
  }
  if (classes.size() > kMostClasses) {
    throw DataError(concat("column '", target, "' holds ", classes.size(), " different values (",
                           some_of(classes), "); at most ", kMostClasses,
                           " classes are supported, and a measurement is not a class"));
  }
}

// Puts the positive class last.
void choose_positive(Labels& labels, const LabelOptions& options) {
  auto& classes = labels.classes;
  if (!options.positive.empty() && classes.size() != 2) {
    throw ConfigError(concat("--positive '", options.positive, "' needs two classes, column '",
                             labels.target, "' has ", classes.size(), ": ", some_of(classes)));
  }
  if (classes.size() != 2) return;
  if (options.positive.empty()) {
    if (classes != std::vector<std::string>{"0", "1"}) {
      labels.notes.push_back(concat("positive class: '", classes[1], "' (the last of ",
                                    some_of(classes), "; --positive chooses another)"));
    }
  } else {
    // A number may be spelt in another way here than in the column.
    std::string positive = one_spelling(trim(options.positive));
    if (std::ranges::find(classes, positive) == classes.end()) positive = trim(options.positive);
    if (std::ranges::find(classes, positive) == classes.end()) {
      throw ConfigError(concat("--positive '", options.positive, "' is not a class of column '",
                               labels.target, "'; those are ", some_of(classes)));
    }
    if (classes[0] == positive) std::swap(classes[0], classes[1]);
  }
  labels.positive = classes[1];
}

// Each value as the class that it is spelt like, else as that of the same number.
void use_known_classes(Labels& labels, std::vector<std::string>& values,
                       const LabelOptions& options) {
  labels.classes = options.known_classes;
  const auto known = [&](const std::string& value) {
    return value.empty() || std::ranges::find(labels.classes, value) != labels.classes.end();
  };
  for (std::string& value : values) {
    value = cleaned(value);
    if (!known(value)) value = one_spelling(value);
    if (known(value)) continue;
    throw DataError(concat("column '", labels.target, "' holds '", value,
                           "', which the model does not know; its classes are ",
                           some_of(labels.classes)));
  }
  if (labels.binary()) labels.positive = labels.classes[1];
}

Labels labels_from_values(std::vector<std::string> values, const LabelOptions& options,
                          Labels labels) {
  labels.target = options.target;
  if (options.known_classes.empty()) {
    values = one_spelling(std::move(values));
    labels.classes = distinct(values);
    check_classes(labels.classes, options.target);
    choose_positive(labels, options);
  } else {
    use_known_classes(labels, values, options);
  }
  for (const std::string& value : values) {
    const auto found = std::ranges::find(labels.classes, value);
    const bool labeled = found != labels.classes.end();
    labels.value.push_back(labeled ? static_cast<int>(found - labels.classes.begin()) : kUnlabeled);
    labels.unlabeled += !labeled;
  }
  if (labels.labeled() == 0) {
    throw DataError(
        concat("column '", options.target, "' is empty for every exam; nothing to compare with"));
  }
  if (labels.unlabeled > 0) {
    labels.notes.push_back(concat(plural(labels.unlabeled, "exam"), " of ", values.size(),
                                  " without a label in '", options.target, "': left out"));
  }
  return labels;
}

std::vector<std::string> column_names(std::span<const cache::ExamInfo> exams) {
  std::vector<std::string> names;
  for (const cache::ExamInfo& exam : exams) {
    for (const cache::ExamColumn& column : exam.columns) {
      if (std::ranges::find(names, column.name) == names.end()) names.push_back(column.name);
    }
  }
  return names;
}

// The row of every exam that the file lists. `spelt`: its labels, in one spelling.
std::map<std::string, std::size_t> rows_of_exams(const CsvTable& table, const std::string& target,
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
                             target, "' = '", spelt[r], "', but '", spelt[known->second],
                             "' further up; keep one of the two"));
    }
  }
  return row_of;
}

void warn(Labels& labels, const std::vector<std::string>& exams, const std::string& what) {
  if (exams.empty()) return;
  labels.warnings.push_back(concat(plural(exams.size(), "exam"), what, ": ", some_of(exams)));
}

}  // namespace

std::vector<std::size_t> Labels::labeled_exams() const {
  std::vector<std::size_t> exams;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != kUnlabeled) exams.push_back(i);
  }
  return exams;
}

Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options) {
  const std::vector<std::string> names = column_names(exams);
  if (std::ranges::find(names, options.target) == names.end()) {
    throw ConfigError(
        concat("the cache has no column '", options.target, "'; it has ",
               names.empty() ? "none: give a file of labels with --labels" : join(names, ", ")));
  }
  std::vector<std::string> values;
  for (const cache::ExamInfo& exam : exams) {
    values.push_back(cache::column_value(exam, options.target));
  }
  return labels_from_values(std::move(values), options, {});
}

Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options) {
  const std::size_t column = table.require_column(options.target);
  std::vector<std::string> spelt;  // the file's labels, then the cache's
  for (const auto& row : table.rows) spelt.push_back(row[column]);
  for (const auto& exam : exams) spelt.push_back(cache::column_value(exam, options.target));
  spelt = one_spelling(std::move(spelt));
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
  return labels_from_values(std::move(values), options, std::move(labels));
}

}  // namespace coldframe::temporal
