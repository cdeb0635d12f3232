#include "train_temporal/labels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

// One spelling per class: in a column of numbers, "1.0" (as pandas writes a column with gaps) is
// "1".
std::vector<std::string> one_spelling(std::vector<std::string> values) {
  double number = 0;
  for (std::string& value : values) value = is_empty(value) ? "" : trim(value);
  const bool numeric = std::ranges::all_of(values, [&](const std::string& value) {
    return value.empty() || (parse_double(value, number) && std::isfinite(number));
  });
  if (!numeric) return values;
  for (std::string& value : values) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are exact
    if (!value.empty() && parse_double(value, number) && number == std::floor(number) &&
        std::abs(number) < kExact) {
      value = concat(static_cast<long long>(number));
    }
  }
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
    std::string positive = one_spelling({options.positive})[0];
    if (std::ranges::find(classes, positive) == classes.end()) positive = trim(options.positive);
    if (std::ranges::find(classes, positive) == classes.end()) {
      throw ConfigError(concat("--positive '", options.positive, "' is not a class of column '",
                               labels.target, "'; those are ", some_of(classes)));
    }
    if (classes[0] == positive) std::swap(classes[0], classes[1]);
  }
  labels.positive = classes[1];
}

void use_known_classes(Labels& labels, const std::vector<std::string>& values,
                       const LabelOptions& options) {
  labels.classes = options.known_classes;
  for (const std::string& value : distinct(values)) {
    if (std::ranges::find(labels.classes, value) == labels.classes.end()) {
      throw DataError(concat("column '", labels.target, "' holds '", value,
                             "', which the model does not know; its classes are ",
                             some_of(labels.classes)));
    }
  }
  if (labels.binary()) labels.positive = labels.classes[1];
}

Labels labels_from_values(std::vector<std::string> values, const LabelOptions& options,
                          Labels labels) {
  values = one_spelling(std::move(values));
  labels.target = options.target;
  if (options.known_classes.empty()) {
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

const std::string* find_column(const cache::ExamInfo& exam, const std::string& name) {
  for (const cache::ExamColumn& column : exam.columns) {
    if (column.name == name) return &column.value;
  }
  return nullptr;
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

// The label of every exam that the file lists.
std::map<std::string, std::string> read_labels(const CsvTable& table, const std::string& target) {
  const std::size_t exam_column = table.require_column("exam");
  const std::size_t target_column = table.require_column(target);
  std::map<std::string, std::string> value_of;
  std::vector<std::string> values;
  for (const auto& row : table.rows) values.push_back(row[target_column]);
  values = one_spelling(std::move(values));
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const std::string& exam = table.rows[r][exam_column];
    if (exam.empty()) {
      throw DataError(concat(table.name, " line ", table.lines[r], ": column 'exam' is empty"));
    }
    const auto [known, added] = value_of.emplace(exam, values[r]);
    if (!added && known->second != values[r]) {
      throw DataError(concat(table.name, " line ", table.lines[r], ": exam '", exam, "' has '",
                             target, "' = '", values[r], "', but '", known->second,
                             "' further up; keep one of the two"));
    }
  }
  return value_of;
}

void warn(Labels& labels, const std::vector<std::string>& exams, const std::string& what) {
  if (exams.empty()) return;
  labels.warnings.push_back(concat(plural(exams.size(), "exam"), what, ": ", some_of(exams)));
}

}  // namespace

Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options) {
  std::vector<std::string> values;
  bool found = false;
  for (const cache::ExamInfo& exam : exams) {
    const std::string* value = find_column(exam, options.target);
    found |= value != nullptr;
    values.push_back(value ? *value : "");
  }
  if (!found) {
    const std::vector<std::string> names = column_names(exams);
    throw ConfigError(
        concat("the cache has no column '", options.target, "'; it has ",
               names.empty() ? "none: give a file of labels with --labels" : join(names, ", ")));
  }
  return labels_from_values(std::move(values), options, {});
}

Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options) {
  std::map<std::string, std::string> value_of = read_labels(table, options.target);
  std::vector<std::string> values, cached, unlisted, conflicts, unknown;
  for (const cache::ExamInfo& exam : exams) {
    const std::string* own = find_column(exam, options.target);
    cached.push_back(own ? *own : "");
  }
  cached = one_spelling(std::move(cached));
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const auto found = value_of.find(exams[i].id);
    if (found == value_of.end()) {
      unlisted.push_back(exams[i].id);
      values.emplace_back();
      continue;
    }
    values.push_back(found->second);
    if (!cached[i].empty() && cached[i] != found->second) conflicts.push_back(exams[i].id);
    value_of.erase(found);
  }
  for (const auto& [exam, value] : value_of) unknown.push_back(exam);
  if (unlisted.size() == exams.size()) {
    throw DataError(concat(table.name, " lists no exam of the cache; it has ", some_of(unknown),
                           ", the cache has ", some_of(unlisted)));
  }
  Labels labels;
  warn(labels, conflicts,
       concat(" whose '", options.target, "' in ", table.name,
              " differs from the cache's (the file's is used)"));
  warn(labels, unknown, concat(" of ", table.name, " not in the cache (ignored)"));
  warn(labels, unlisted, concat(" of the cache not in ", table.name, " (no label)"));
  return labels_from_values(std::move(values), options, std::move(labels));
}

}  // namespace coldframe::temporal
