#include "train_temporal/labels/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "train_temporal/labels/cox.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

constexpr std::array kUnclear = {"none", "null", "<na>", "#n/a", "-",      "--",
                                 "?",    ".",    "…",    "–",    "unknown"};

using Counts = std::map<std::string, std::size_t>;

// "'None' (2) and '?' (1)"
std::string listed(const Counts& words) {
  std::vector<std::string> texts;
  for (const auto& [word, count] : words) texts.push_back(concat("'", word, "' (", count, ")"));
  return join(texts, ", ");
}

}  // namespace

std::string empty_missing(std::vector<std::string>& values, const std::string& column,
                          UnclearLabels unclear, const std::vector<std::string>& classes) {
  Counts missing, asked;
  for (std::string& value : values) {
    const std::string word = trim(value);
    const bool is_unclear =
        std::ranges::find(kUnclear, lower(word)) != kUnclear.end() && !find_spelling(classes, word);
    if (is_unclear && unclear == UnclearLabels::kAsk) ++asked[word];
    if (!is_missing(word) && !(is_unclear && unclear == UnclearLabels::kMissing)) continue;
    if (!word.empty()) ++missing[word];
    value.clear();
  }
  if (!asked.empty())
    throw ConfigError(concat("column '", column, "' holds ", listed(asked),
                             ": give --unclear-labels missing where that says that there is no "
                             "label, or --unclear-labels classes where it names a class (where "
                             "both occur, leave the fields without a label empty)"));
  if (missing.empty()) return "";
  return concat("column '", column, "': ", listed(missing), " taken for no label");
}

std::string cleaned(const std::string& value) {
  return is_missing(value) ? "" : trim(value);
}

std::string one_spelling(const std::string& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are exact
  double number = 0;
  if (!parse_double(value, number) || !std::isfinite(number)) return value;
  const bool whole = number == std::floor(number) && std::abs(number) < kExact;
  return whole ? concat(static_cast<long long>(number)) : exact(number);
}

SpeltValues one_spelling(std::vector<std::string> values) {
  for (std::string& value : values) value = cleaned(value);
  const bool numeric = cache::infer_type(values) != cache::ColumnType::kText;
  std::string changes;
  if (numeric) {
    for (std::string& value : values) value = one_spelling(value);
  } else {
    changes = unify_spelling(values);
  }
  return {std::move(values), numeric, std::move(changes)};
}

std::string tell_changes(const std::string& column, const std::string& changes) {
  return concat(
      "column '", column,
      "': values that differ in spelling alone (case, spaces, forms of Unicode) are taken "
      "as one, ",
      changes, "; if they differ on purpose, give them names that differ more");
}

std::vector<std::string> distinct(const std::vector<std::string>& values) {
  std::vector<std::string> classes;
  const std::set<std::string> unique(values.begin(), values.end());
  std::ranges::copy_if(unique, std::back_inserter(classes), [](auto& v) { return !v.empty(); });
  // Exact order among values that natural order takes for equal, so that it is a total one.
  std::ranges::stable_sort(classes, natural_less);
  return classes;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += concat(i ? ", '" : "'", names[i], "'");
  }
  if (names.size() > kShown) text += concat(" and ", names.size() - kShown, " more");
  return text;
}

namespace {

constexpr std::size_t kMaxBins = 10, kExamsPerBin = 10;
constexpr double kMasked = std::numeric_limits<double>::quiet_NaN();

double number_of(const std::string& value) {
  double number = kMasked;
  if (!value.empty()) parse_double(value, number);
  return number;
}

// `changes`: of the spelling of values.
void check_labels(const std::vector<std::string>& classes, const Labels& labels,
                  const std::string& changes) {
  if (classes.empty()) {
    throw DataError(
        concat("column '", labels.name, "' is empty for every exam; nothing to learn from"));
  }
  if (classes.size() == 1) {
    const char* what = labels.kind().names_classes() ? "class" : "number";
    throw DataError(concat("column '", labels.name, "' holds one ", what, " only: every label is '",
                           classes[0], "'; two are needed",
                           changes.empty() ? "" : "; " + tell_changes(labels.name, changes)));
  }
  const std::size_t most = labels.kind().max_classes();
  if (!labels.kind().names_classes() || classes.size() <= most) return;
  if (most > 2)
    throw DataError(concat("column '", labels.name, "' holds ", classes.size(),
                           " different values (", some_of(classes), "); at most ", most,
                           " classes are supported, and a measurement is not a class (--task "
                           "regression learns numbers)"));
  throw ConfigError(concat("--task ", task_name(labels.task), " needs two classes, column '",
                           labels.name, "' has ", classes.size(), ": ", some_of(classes)));
}

// The class that is spelt like the value, or that of the same number.
std::optional<std::size_t> find_class(const std::vector<std::string>& classes,
                                      const std::string& value) {
  const auto same = find_spelling(classes, trim(value));
  return same ? same : find_spelling(classes, one_spelling(trim(value)));
}

// Each class is named once, and no merged one has the name of another.
void check_class_changes(const Labels& labels, const std::vector<std::string>& classes) {
  std::vector<std::string> named;
  for (const ClassChange& change : labels.changes) {
    for (const std::string& name : change.from) {
      if (find_class(named, name))
        throw ConfigError(concat("class '", name, "' of column '", labels.name,
                                 "' is left out or merged twice; name it once"));
      named.push_back(name);
    }
    if (!change.to.empty() && find_class(classes, change.to) && !find_class(change.from, change.to))
      throw ConfigError(
          concat("column '", labels.name, "' has a class '", change.to,
                 "' already; merge it, too, or give the merged classes another name"));
  }
}

// Leaves classes out and takes classes together. A trained model's may be missing in a cohort.
void change_classes(Labels& labels, std::vector<std::string>& values, const LabelOptions& options) {
  labels.changes = options.changes;
  if (labels.changes.empty()) return;
  const std::vector<std::string> before = distinct(one_spelling(values).values);
  const bool trained = !options.known_classes.empty();
  if (!trained) check_class_changes(labels, before);
  std::vector<std::size_t> count(labels.changes.size(), 0);
  for (const ClassChange& change : labels.changes) {
    for (const std::string& name : change.from) {
      if (trained || find_class(before, name)) continue;
      throw ConfigError(concat("column '", labels.name, "' has no class '", name,
                               "' to leave out or to merge; it has ", some_of(before)));
    }
  }
  for (std::string& value : values) {
    if (cleaned(value).empty()) continue;
    for (std::size_t c = 0; c < labels.changes.size(); ++c) {
      if (!find_class(labels.changes[c].from, value)) continue;
      value = labels.changes[c].to;
      ++count[c];
      break;
    }
  }
  for (std::size_t c = 0; c < labels.changes.size(); ++c)
    labels.notes.push_back(
        concat("'", labels.name, "' ",
               text_of({labels.changes[c]},
                       [](const std::string& name) { return concat("'", name, "'"); }),
               ": ", plural(count[c], "label")));
}

// Puts the positive class last.
void choose_positive(Labels& labels, const LabelOptions& options) {
  auto& classes = labels.classes;
  if (!options.positive.empty() && !labels.kind().names_classes()) {
    throw ConfigError(concat("--positive '", options.positive, "' is for two classes, and '",
                             labels.name, "' is learnt as ", task_name(labels.task)));
  }
  if (!options.positive.empty() && !labels.has_threshold()) {
    throw ConfigError(concat("--positive '", options.positive, "' needs two classes, column '",
                             labels.name, "' has ", classes.size(), ": ", some_of(classes)));
  }
  if (!labels.has_threshold()) return;
  if (options.positive.empty()) {
    if (classes != std::vector<std::string>{"0", "1"}) {
      labels.notes.push_back(concat("positive class: '", classes[1], "' (the last of ",
                                    some_of(classes), "; --positive chooses another)"));
    }
  } else {
    const auto positive = find_class(classes, options.positive);
    if (!positive) {
      throw ConfigError(concat("--positive '", options.positive, "' is not a class of column '",
                               labels.name, "'; those are ", some_of(classes)));
    }
    if (*positive == 0) std::swap(classes[0], classes[1]);
  }
  labels.positive = classes[1];
}

void use_known_classes(Labels& labels, std::vector<std::string>& values,
                       const LabelOptions& options) {
  labels.classes = options.known_classes;
  for (std::string& value : values) value = cleaned(value);
  const std::string changes = unify_spelling(values, labels.classes);
  if (!changes.empty()) labels.warnings.push_back(tell_changes(labels.name, changes));
  for (std::string& value : values) {
    if (value.empty()) continue;
    const auto known = find_class(labels.classes, value);
    if (!known) {
      throw DataError(concat("column '", labels.name, "' holds '", value,
                             "', which the model does not know; its classes are ",
                             some_of(labels.classes)));
    }
    value = labels.classes[*known];
  }
  labels.task = options.task.value_or(task_of_values(labels.classes, false));
  if (labels.has_threshold()) labels.positive = labels.classes[1];
}

void find_classes(Labels& labels, std::vector<std::string>& values, const LabelOptions& options) {
  SpeltValues spelt = one_spelling(std::move(values));
  values = std::move(spelt.values);
  if (!spelt.changes.empty()) labels.warnings.push_back(tell_changes(labels.name, spelt.changes));
  std::vector<std::string> classes = distinct(values);
  labels.task = options.task.value_or(task_of_values(classes, spelt.numeric));
  labels.task = labels.kind().of_classes(classes.size());
  const bool numbers = !labels.kind().names_classes();
  if (numbers && !labels.changes.empty())
    throw ConfigError(concat("--drop-class and --merge-classes are for classes, and '", labels.name,
                             "' is learnt as ", task_name(labels.task)));
  for (const std::string& value : classes) {
    if (!numbers || spelt.numeric || std::isfinite(number_of(value))) continue;
    throw DataError(concat("column '", labels.name, "' holds '", value,
                           "', which is not a finite number; a regression needs numbers "
                           "(empty fields and 'nan' are masked)"));
  }
  if (numbers && options.trained) return;
  check_labels(classes, labels, spelt.changes);
  if (!numbers) labels.classes = std::move(classes);
  choose_positive(labels, options);
  std::string note = labels.kind().note_on_labels(labels, spelt.numeric, options.task.has_value());
  if (!note.empty()) labels.notes.push_back(std::move(note));
}

// The number of the class, or the number; NaN: masked.
std::vector<double> encode(Labels& labels, std::vector<std::string> values,
                           const LabelOptions& options) {
  labels.name = options.target;
  std::string note = empty_missing(values, labels.name, options.unclear, options.known_classes);
  if (!note.empty()) labels.notes.push_back(std::move(note));
  change_classes(labels, values, options);
  if (options.known_classes.empty()) {
    find_classes(labels, values, options);
  } else {
    use_known_classes(labels, values, options);
  }
  std::vector<double> codes;
  for (const std::string& value : values) {
    const auto found = std::ranges::find(labels.classes, value);
    const auto of_class = static_cast<double>(found - labels.classes.begin());
    const bool known = found != labels.classes.end();
    codes.push_back(labels.has_classes() ? (known ? of_class : kMasked) : number_of(value));
  }
  return codes;
}

// Bins that hold about equally many exams; equal numbers share one.
void stratify_numbers(Labels& labels) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < labels.number.size(); ++i) {
    if (!std::isnan(labels.number[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return labels.number[i]; });
  labels.bins = std::clamp<std::size_t>(order.size() / kExamsPerBin, 1, kMaxBins);
  labels.value.assign(labels.number.size(), kUnlabeled);
  std::size_t bin = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const bool tied = rank > 0 && labels.number[order[rank]] == labels.number[order[rank - 1]];
    if (!tied) bin = rank * labels.bins / order.size();
    labels.value[order[rank]] = static_cast<int>(bin);
  }
}

void count_unlabeled(Labels& labels) {
  labels.unlabeled = static_cast<std::size_t>(std::ranges::count(labels.value, kUnlabeled));
  if (labels.labeled() == 0) {
    throw DataError(
        concat("column '", labels.name, "' is empty for every exam; nothing to compare with"));
  }
  if (labels.unlabeled > 0) {
    labels.notes.push_back(concat(plural(labels.unlabeled, "exam"), " of ", labels.value.size(),
                                  " without a label in '", labels.name, "': left out"));
  }
}

// Deviations of numbers that float32 cannot square are infinite, whatever the learning rate.
void require_learnable(const Labels& labels, std::span<const cache::ExamInfo> exams) {
  if (labels.has_classes()) return;
  for (std::size_t exam = 0; exam < exams.size(); ++exam) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row) {
      const double label = labels.at(exam, row);
      if (std::isnan(label) || is_learnable(label)) continue;
      throw DataError(concat("exam '", exams[exam].id, "': column '", labels.name, "' holds ",
                             exact(label), "; numbers up to ", exact(kMaxLearnt),
                             " can be learnt (training computes in float32): correct it, or leave "
                             "the field empty"));
    }
  }
}

Labels labels_from_frames(std::span<const cache::ExamInfo> exams, const LabelOptions& options) {
  std::vector<std::string> values;
  for (const cache::ExamInfo& exam : exams) {
    const cache::FrameColumn* column = frame_column(exam, options.target);
    for (std::size_t t = 0; t < exam.frames(); ++t) {
      if (exam.present[t]) values.push_back(column ? column->values[t] : "");
    }
  }
  Labels labels;
  labels.per_frame = true;
  const std::vector<double> codes = encode(labels, std::move(values), options);
  std::size_t next = 0, masked = 0;
  for (const cache::ExamInfo& exam : exams) {
    std::vector<double>& frame = labels.frame.emplace_back();
    double sum = 0, count = 0;
    for (std::size_t t = 0; t < exam.frames(); ++t) {
      if (!exam.present[t]) continue;
      frame.push_back(codes[next++]);
      if (std::isnan(frame.back())) continue;
      sum += frame.back();
      count += 1;
    }
    masked += frame.size() - static_cast<std::size_t>(count);
    labels.number.push_back(count > 0 ? sum / count : kMasked);
    labels.value.push_back(count > 0 ? 0 : kUnlabeled);
  }
  if (!labels.has_classes()) stratify_numbers(labels);
  if (masked > 0) {
    labels.notes.push_back(concat(masked, " of ", plural(codes.size(), "frame"),
                                  " without a label in '", labels.name, "': masked"));
  }
  count_unlabeled(labels);
  require_learnable(labels, exams);
  return labels;
}

}  // namespace

std::vector<std::size_t> Labels::labeled_exams() const {
  std::vector<std::size_t> exams;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != kUnlabeled) exams.push_back(i);
  }
  return exams;
}

double Labels::at(std::size_t exam, std::size_t row) const {
  if (per_frame) return frame[exam][row];
  if (value[exam] == kUnlabeled) return kMasked;
  return has_classes() ? static_cast<double>(value[exam]) : number[exam];
}

void Labels::mask(std::size_t exam) {
  if (value[exam] == kUnlabeled) return;
  value[exam] = kUnlabeled;
  ++unlabeled;
}

void Labels::count_strata(std::size_t exam, std::span<std::size_t> count) const {
  if (value[exam] == kUnlabeled) return;
  if (!per_frame || !has_classes()) {
    ++count[static_cast<std::size_t>(value[exam])];
    return;
  }
  for (double label : frame[exam]) {
    if (!std::isnan(label)) ++count[static_cast<std::size_t>(label)];
  }
}

std::string class_counts(const Labels& labels) {
  std::vector<std::size_t> count(labels.classes.size(), 0);
  for (std::size_t exam = 0; exam < labels.value.size(); ++exam)
    if (labels.has_classes()) labels.count_strata(exam, count);
  std::vector<std::string> texts;
  for (std::size_t c = 0; c < count.size(); ++c)
    texts.push_back(concat("'", labels.classes[c], "' ", count[c]));
  return join(texts, ", ");
}

Labels labels_from_values(std::vector<std::string> values, std::span<const cache::ExamInfo> exams,
                          const LabelOptions& options, Labels labels) {
  std::vector<double> codes = encode(labels, std::move(values), options);
  if (labels.has_classes()) {
    for (double code : codes) {
      labels.value.push_back(std::isnan(code) ? kUnlabeled : static_cast<int>(code));
    }
  } else {
    labels.number = std::move(codes);
    stratify_numbers(labels);
  }
  count_unlabeled(labels);
  require_learnable(labels, exams);
  return labels;
}

Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options) {
  const std::vector<std::string> names = column_names(exams);
  const bool of_exams = std::ranges::find(names, options.target) != names.end();
  const bool of_frames = std::ranges::any_of(exams, [&](const cache::ExamInfo& exam) {
    return frame_column(exam, options.target) != nullptr;
  });
  if (of_exams && of_frames) {
    throw ConfigError(concat("'", options.target,
                             "' is a column of exams and of frames in this cache; rename one of "
                             "them and extract again"));
  }
  if (of_frames) return labels_from_frames(exams, options);
  if (!of_exams) {
    throw ConfigError(concat("the cache has no column '", options.target, "'; it has ",
                             known_words(names, options.target),
                             names.empty() ? ": give a file of labels with --labels" : ""));
  }
  std::vector<std::string> values;
  for (const cache::ExamInfo& exam : exams) {
    values.push_back(cache::column_value(exam, options.target));
  }
  return labels_from_values(std::move(values), exams, options);
}

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

namespace {

constexpr std::array kYes = {"1", "yes", "y", "true", "t"}, kNo = {"0", "no", "n", "false", "f"};

bool is_one_of(const auto& words, const std::string& value) {
  return std::ranges::find(words, lower(value)) != words.end();
}

bool say_yes_or_no(const std::vector<std::string>& values) {
  return std::ranges::all_of(values, [](const std::string& value) {
    return is_one_of(kYes, value) || is_one_of(kNo, value);
  });
}

// A cohort to which a model is applied may spell the event otherwise, which the user must state: if
// treated as censored, such exams would silently falsify metrics.
std::string known_event_value(const std::vector<std::string>& different,
                              const LabelOptions& options) {
  const std::string& own = options.event_value;
  const bool known =
      own.empty() ? say_yes_or_no(different) : find_spelling(different, own).has_value();
  if (known || different.empty()) return own;
  throw ConfigError(concat(
      "the run learnt from a column that says ",
      own.empty() ? "1, yes or true" : concat("'", own, "'"), " where the event came, and '",
      options.event, "' says ", some_of(different),
      " here; give --positive VALUE for the one that means that the event came",
      own.empty()
          ? ""
          : concat(", or --positive ", shell_word(own), " if it came in none of these exams")));
}

// Chooses the value that says that the event came; "" where the words are those above.
std::string event_value_of(const std::vector<std::string>& values, const LabelOptions& options) {
  const std::vector<std::string> different = distinct(values);
  if (different.size() > 2)
    throw ConfigError(concat("--target ", options.target, ":", options.event, ": the column '",
                             options.event, "' has ", different.size(), " different values, ",
                             some_of(different), "; expected whether the event came, 0 or 1"));
  const std::string& asked = options.positive;
  if (!asked.empty()) {
    const std::string value = one_spelling(trim(asked));
    if (options.trained && value == options.event_value) return value;
    if (const auto found = find_spelling(different, value)) return different[*found];
    throw ConfigError(concat("--positive '", asked, "' is no value of '", options.event,
                             "'; those are ", some_of(different)));
  }
  if (options.trained) return known_event_value(different, options);
  if (say_yes_or_no(different)) return "";
  throw ConfigError(concat("the column '", options.event, "' says ", some_of(different),
                           "; expected 0 and 1, no and yes or false and true, or --positive VALUE "
                           "for the one that means that the event came"));
}

std::string listed(const std::vector<double>& numbers) {
  std::vector<std::string> words;
  for (const double number : numbers) words.push_back(exact(number));
  return join(words, ", ");
}

double time_from(const std::string& text, const LabelOptions& options, const std::string& exam) {
  double time = 0;
  if (parse_double(text, time) && is_learnable(time) && time >= 0) return time;
  throw DataError(concat("exam '", exam, "': column '", options.target, "' holds '", text,
                         "'; a time to an event is a number from 0 to ", exact(kMaxLearnt),
                         " (empty fields and 'nan' are masked)"));
}

std::vector<double> ascending_times(const Labels& labels, bool of_events) {
  std::vector<double> times;
  for (std::size_t i = 0; i < labels.number.size(); ++i)
    if (labels.value[i] != kUnlabeled && (!of_events || labels.value[i] == 1))
      times.push_back(time_of(labels.number[i]));
  std::ranges::sort(times);
  return times;
}

void check_horizons(const std::vector<double>& horizons, double longest) {
  for (const double horizon : horizons)
    if (horizon >= longest)
      throw ConfigError(concat("--horizons ", exact(horizon), ": the longest follow-up is ",
                               exact(longest), "; give times that some exams are followed beyond"));
}

std::vector<double> quartiles(const std::vector<double>& events, double longest) {
  std::vector<double> horizons;
  for (const std::size_t quarter : {1, 2, 3}) {
    const double time = events[(quarter * events.size() + 3) / 4 - 1];
    const double before = horizons.empty() ? 0 : horizons.back();
    if (time > before && time < longest) horizons.push_back(time);
  }
  if (horizons.empty()) horizons.push_back(longest / 2);
  return horizons;
}

// Horizons depend on the times of all events.
void choose_horizons(Labels& labels, const LabelOptions& options) {
  labels.horizons = options.horizons;
  if (options.trained) return;
  const std::vector<double> events = ascending_times(labels, true);
  if (events.empty())
    throw DataError(concat("column '", labels.event, "' says of no exam with a '", labels.name,
                           "' that the event came; nothing to learn from"));
  const double longest = ascending_times(labels, false).back();
  if (longest == 0)
    throw DataError(
        concat("column '", labels.name, "' is 0 for every exam; nothing to learn from"));
  check_horizons(labels.horizons, longest);
  if (labels.horizons.empty()) labels.horizons = quartiles(events, longest);
  labels.notes.push_back(concat("'", labels.event, "' came in ", events.size(), " of ",
                                plural(labels.labeled(), "exam"),
                                "; horizons: ", listed(labels.horizons)));
}

}  // namespace

Labels survival_labels(std::span<const cache::ExamInfo> exams, const CsvTable* table,
                       const LabelOptions& options) {
  Labels labels;
  const auto column = [&](const std::string& name, std::vector<std::string> words) {
    std::vector<std::string> values = exam_column(exams, table, name, "target", labels.warnings);
    std::string note = empty_missing(values, name, options.unclear, words);
    if (!note.empty()) labels.notes.push_back(std::move(note));
    return values;
  };
  const auto times = column(options.target, {});
  const auto events = column(options.event, {options.event_value, options.positive});
  labels.name = options.target;
  labels.event = options.event;
  labels.task = options.task.value_or(Task::kCox);
  labels.event_value = event_value_of(events, options);
  labels.bins = 2;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const bool known = !times[i].empty() && !events[i].empty();
    const bool came = labels.event_value.empty()
                          ? is_one_of(kYes, events[i])
                          : plain_spelling(events[i]) == plain_spelling(labels.event_value);
    labels.number.push_back(known ? survival_label(time_from(times[i], options, exams[i].id), came)
                                  : std::numeric_limits<double>::quiet_NaN());
    labels.value.push_back(known ? came : kUnlabeled);
    labels.unlabeled += !known;
  }
  if (labels.labeled() == 0)
    throw DataError(concat("no exam has both a '", labels.name, "' and a word in '", labels.event,
                           "'; nothing to learn from"));
  if (labels.unlabeled > 0)
    labels.notes.push_back(concat(plural(labels.unlabeled, "exam"), " of ", exams.size(),
                                  " without '", labels.name, "' or '", labels.event,
                                  "': left out"));
  choose_horizons(labels, options);
  return labels;
}

namespace {

// The target that a stratum belongs to, and its number there.
std::pair<std::size_t, std::size_t> find_stratum(const std::vector<Labels>& targets,
                                                 std::size_t stratum) {
  std::size_t target = 0;
  while (stratum >= targets[target].strata()) stratum -= targets[target++].strata();
  return {target, stratum};
}

}  // namespace

Targets::Targets(std::vector<Labels> all) : all_(std::move(all)) {
  for (const Labels& labels : all_) {
    if (labels.per_frame == per_frame()) continue;
    const Labels& first = all_.front();
    throw ConfigError(concat("'", (per_frame() ? first : labels).name, "' has a value per frame, '",
                             (per_frame() ? labels : first).name,
                             "' one per exam; train them in two runs"));
  }
}

std::string Targets::names() const {
  const std::vector<Target> targets = list();
  return names_of(targets);
}

bool Targets::labeled(std::size_t exam) const {
  return std::ranges::any_of(all_,
                             [&](const Labels& one) { return one.value[exam] != kUnlabeled; });
}

std::vector<std::size_t> Targets::labeled_exams() const {
  std::vector<std::size_t> exams;
  for (std::size_t exam = 0; exam < this->exams(); ++exam) {
    if (labeled(exam)) exams.push_back(exam);
  }
  return exams;
}

void Targets::mask(std::size_t exam) {
  for (Labels& labels : all_) labels.mask(exam);
}

std::size_t Targets::rows(const std::vector<std::size_t>& exams) const {
  std::size_t sum = 0;
  for (std::size_t exam : exams) sum += rows(exam);
  return sum;
}

std::size_t Targets::outputs() const {
  return first_output(all_.size());
}

std::size_t Targets::first_output(std::size_t target) const {
  return temporal::first_output(all_, target);
}

std::size_t Targets::strata() const {
  std::size_t sum = 0;
  for (const Labels& labels : all_) sum += labels.strata();
  return sum;
}

std::vector<std::size_t> Targets::count_strata(std::size_t exam) const {
  std::vector<std::size_t> count(strata(), 0);
  std::span<std::size_t> rest(count);
  for (const Labels& labels : all_) {
    labels.count_strata(exam, rest.first(labels.strata()));
    rest = rest.subspan(labels.strata());
  }
  return count;
}

std::string Targets::stratum_name(std::size_t stratum) const {
  const auto [target, number] = find_stratum(all_, stratum);
  const Labels& labels = all_[target];
  const std::string name = labels.kind().stratum_name(labels, number, labels.bins);
  return all_.size() == 1 ? concat("'", name, "'") : concat("'", name, "' of '", labels.name, "'");
}

bool Targets::is_class(std::size_t stratum) const {
  const auto [target, number] = find_stratum(all_, stratum);
  return all_[target].kind().is_class(number);
}

ScoredExams scored_rows(const Labels& labels, const std::vector<std::size_t>& exams,
                        std::span<const double> scores, std::span<const int> decision) {
  ScoredExams result;
  result.width = labels.scores();
  result.scale = labels.scale();
  result.horizons = labels.horizons;
  result.per_frame = labels.per_frame;
  std::size_t next = 0;
  for (std::size_t exam : exams) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row, ++next) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) continue;
      const auto own = scores.subspan(next * result.width, result.width);
      result.predicted.insert(result.predicted.end(), own.begin(), own.end());
      labels.kind().add_label(result, label);
      result.decision.push_back(decision[next]);
      if (labels.per_frame) result.frame.push_back({exam, row});
    }
  }
  return result;
}

Readout readout_of(const Labels& labels, const std::vector<std::size_t>& train) {
  Readout readout;
  std::vector<double> known;
  for (std::size_t exam : train) {
    for (std::size_t row = 0; row < labels.rows(exam); ++row)
      if (!std::isnan(labels.at(exam, row))) known.push_back(labels.at(exam, row));
  }
  labels.kind().learn_labels(readout, labels, known);
  return readout;
}

}  // namespace coldframe::temporal
