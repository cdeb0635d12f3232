// The labels of one target: one per exam, from a column of the cache or from a CSV, or one per
// frame, from a frame column of the cache.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/csv.h"
#include "train_temporal/splits/label_values.h"
#include "train_temporal/tasks/target.h"

namespace coldframe::temporal {

inline constexpr int kUnlabeled = -1;

struct LabelOptions {
  std::string target;    // name of the column
  std::string positive;  // binary: which value is class 1; "" decides by the rule below
  // evaluate: the classes of the trained model, in its order; any other value is an error. A value
  // is taken as it is spelt, and as a number only if no class is spelt so. Empty: the classes are
  // those that the column holds.
  std::vector<std::string> known_classes;
  std::optional<Task> task = std::nullopt;  // none: by the type of the column
  bool trained = false;  // evaluate: all labels may be equal, as nothing is learnt from them
  // Times to an event (survival_labels.h), as Target has them; `event` empty: other labels.
  std::string event = {}, event_value = {};
  std::vector<double> horizons = {};
  UnclearLabels unclear = UnclearLabels::kAsk;
};

struct Labels : Target {   // classes in natural order
  std::vector<int> value;  // per exam: its class, or the bin of its number; kUnlabeled: masked
  // Regression: quantiles of the labels, to stratify by. Times: 1 with an event, 0 without.
  std::size_t bins = 0;
  std::vector<double> number;         // regression: per exam; times: survival_label(); NaN: masked
  std::size_t unlabeled = 0;          // exams
  std::string positive;               // binary only, else ""
  std::vector<std::string> notes;     // for the log: what was decided or left out
  std::vector<std::string> warnings;  // for the log and the report: what somebody should check
  // A target per frame: class or number of each present frame of each exam, NaN: masked. `value` is
  // then 0, or the bin of the mean number, where any frame has a label.
  std::vector<std::vector<double>> frame;

  std::size_t labeled() const { return value.size() - unlabeled; }
  std::vector<std::size_t> labeled_exams() const;  // indices

  std::size_t rows(std::size_t exam) const { return per_frame ? frame[exam].size() : 1; }
  // The class or number of an exam, or of one of its present frames; NaN: masked.
  double at(std::size_t exam, std::size_t row) const;
  void mask(std::size_t exam);

  // Splits are stratified by classes or by bins of numbers.
  std::size_t strata() const { return has_classes() ? classes.size() : bins; }
  // Adds the labels of the exam to those of each stratum.
  void count_strata(std::size_t exam, std::span<std::size_t> count) const;
};

// Of classes, in exams or frames: "'no' 57, 'yes' 43"; empty for numbers and times.
std::string class_counts(const Labels& labels);

// An empty field, "nan" or "na" is no label; for words of which that is unclear see UnclearLabels.
// Values are text, but in a column of numbers "1.0" and "1" are one class, and in any other "Yes"
// and "yes " (spelling.h; a warning says so). The task, unless it is asked for: of two values
// binary; of numbers with fractions or more than 20 different ones regression; else multi-class.
// With two classes the positive one is `positive`, else 1 of the numbers {0, 1}, else the last in
// natural order (a note says so). ConfigError: no such column (lists those there are) or one of
// exams and of frames, `positive` is not a class or there are more than two, another task than the
// labels allow, an unclear word. DataError: no labels, a single class or number, too many classes,
// a value unknown to the model, text in a regression, a number that is too large to learn from.
Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options);

// The file (columns `exam` and the target) replaces the cache's column of that name: an exam that
// it does not list has no label. Conflicts with the cache's column and unknown exams are warnings;
// two different values for one exam are a DataError.
Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options);

// The labels of exams whose values are already collected, one per exam.
Labels labels_from_values(std::vector<std::string> values, std::span<const cache::ExamInfo> exams,
                          const LabelOptions& options, Labels labels = {});

}  // namespace coldframe::temporal
