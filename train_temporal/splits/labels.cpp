#include "train_temporal/splits/labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/numbers/finite.h"
#include "common/text/spelling.h"
#include "common/text/suggestion.h"
#include "common/text/text.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostBins = 10, kExamsPerBin = 10;
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
  const std::size_t most = labels.kind().most_classes();
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
  labels.bins = std::clamp<std::size_t>(order.size() / kExamsPerBin, 1, kMostBins);
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
                             exact(label), "; numbers up to ", exact(kMostLearnt),
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

}  // namespace coldframe::temporal
