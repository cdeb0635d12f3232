// Labels as their column spells them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/csv.h"
#include "common/text/spelling.h"
#include "train_temporal/labels/target.h"

namespace coldframe::temporal {

// How to read words that mean a missing label in some tables and a class in others: None, null, -,
// ?, unknown.
enum class UnclearLabels { kAsk, kMissing, kClasses };
inline const WordTable<UnclearLabels> kUnclearLabels{{"ask", UnclearLabels::kAsk},
                                                     {"missing", UnclearLabels::kMissing},
                                                     {"classes", UnclearLabels::kClasses}};

// Empties the labels of a column that mean "missing" and returns a sentence about them; "" if there
// are none. `classes`: words known to name a class. ConfigError if a word is unclear.
std::string empty_missing(std::vector<std::string>& values, const std::string& column,
                          UnclearLabels unclear, const std::vector<std::string>& classes = {});

// Strips spaces; returns "" for missing labels: nan, na, n/a.
std::string cleaned(const std::string& value);

// A number as "1" or "0.5", however spelt ("1.0" is how pandas writes a column with gaps).
std::string one_spelling(const std::string& value);

// Cleaned values. In a column of numbers each number has one spelling, in any other column each
// word (spelling.h).
struct SpeltValues {
  std::vector<std::string> values;
  bool numeric = false;  // every label is a finite number
  std::string changes;   // as unify_spelling() describes them
};
SpeltValues one_spelling(std::vector<std::string> values);

// Describes values that were merged: "column 'sex': values that differ …"
std::string tell_changes(const std::string& column, const std::string& changes);

// The distinct labels among cleaned values, in natural order.
std::vector<std::string> distinct(const std::vector<std::string>& values);

// 'a', 'b', 'c' and 4 more
std::string some_of(const std::vector<std::string>& names);

// The labels of one target: one per exam, from a column of the cache or from a CSV, or one per
// frame, from a frame column of the cache.

inline constexpr int kUnlabeled = -1;

struct LabelOptions {
  std::string target;    // name of the column
  std::string positive;  // binary: which value is class 1; "" decides by the rule below
  // evaluate: the classes of the trained model, in its order; any other value is an error. A value
  // is matched by its spelling first, and as a number only if no class is spelt so. Empty: the
  // classes are those in the column.
  std::vector<std::string> known_classes;
  std::optional<Task> task = std::nullopt;  // none: by the type of the column
  bool trained = false;  // evaluate: all labels may be equal, since nothing is learnt from them
  // Times to an event, as Target has them; `event` empty: other labels.
  std::string event = {}, event_value = {};
  std::vector<double> horizons = {};
  UnclearLabels unclear = UnclearLabels::kAsk;
  std::vector<ClassChange> changes = {};  // as Target has them
};

struct Labels : Target {   // classes in natural order
  std::vector<int> value;  // per exam: its class, or the bin of its number; kUnlabeled: masked
  // Regression: quantiles of the labels, to stratify by. Times: 1 with an event, 0 without.
  std::size_t bins = 0;
  std::vector<double> number;         // regression: per exam; times: survival_label(); NaN: masked
  std::size_t unlabeled = 0;          // exams
  std::string positive;               // binary only, else ""
  std::vector<std::string> notes;     // for the log: decisions and omissions
  std::vector<std::string> warnings;  // for the log and the report: what the user should check
  // A per-frame target: class or number of each present frame of each exam, NaN: masked. `value` is
  // then 0, or the bin of the mean number, if any frame has a label.
  std::vector<std::vector<double>> frame;

  std::size_t labeled() const { return value.size() - unlabeled; }
  std::vector<std::size_t> labeled_exams() const;  // indices

  std::size_t rows(std::size_t exam) const { return per_frame ? frame[exam].size() : 1; }
  // The class or number of an exam, or of one of its present frames; NaN: masked.
  double at(std::size_t exam, std::size_t row) const;
  void mask(std::size_t exam);

  // Splits are stratified by classes or by bins of numbers.
  std::size_t strata() const { return has_classes() ? classes.size() : bins; }
  // Adds the exam's labels to the count of each stratum.
  void count_strata(std::size_t exam, std::span<std::size_t> count) const;
};

// Of classes, in exams or frames: "'no' 57, 'yes' 43"; empty for numbers and times.
std::string class_counts(const Labels& labels);

// An empty field, "nan" or "na" is no label; for unclear words see UnclearLabels. Values are text,
// but "1.0" and "1" are one class in a column of numbers, and "Yes" and "yes " in any other
// (spelling.h; with a warning). The default task: binary for two values; regression for numbers
// with fractions or more than 20 distinct ones; else multi-class. The positive one of two classes
// is `positive`, else 1 of the numbers {0, 1}, else the last in natural order (with a note).
// Classes are left out or taken together first, by `changes`. ConfigError: no such column (lists
// the existing ones), a class to change that the column does not hold, or a column both of exams
// and of frames; `positive` is not a class, or there are more than two; a task that the labels do
// not allow; an unclear word. DataError: no labels, a single class or number, too many classes, a
// value unknown to the model, text in a regression, a number too large to learn from.
Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options);

// The file (columns `exam` and the target) replaces the cache's column of that name: exams that it
// does not list have no label. It warns of conflicts with the cache's column and of unknown exams.
// DataError: two different values for one exam.
Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options);

// Labels from values that are already collected, one per exam.
Labels labels_from_values(std::vector<std::string> values, std::span<const cache::ExamInfo> exams,
                          const LabelOptions& options, Labels labels = {});

// Labels from a CSV next to the cache.

// Maps every exam in the file to its row. `spelt`: the file's values of `column`, in one spelling.
// DataError: a row without an exam, two values for one exam.
std::map<std::string, std::size_t> rows_of_exams(const CsvTable& table, const std::string& column,
                                                 const std::vector<std::string>& spelt);

// A column of exams, whatever it is for.

// The values of a column, one per exam, from `labels` if it has the column, else from the cache; ""
// if missing. Each number and each word (spelling.h) has one spelling; `warnings` lists words that
// were merged. ConfigError, which names `option`, if neither has the column; DataError if `labels`
// has two values for an exam.
std::vector<std::string> exam_column(std::span<const cache::ExamInfo> exams, const CsvTable* labels,
                                     const std::string& column, const std::string& option,
                                     std::vector<std::string>& warnings);

// Time-to-event labels, from a column of times and a column of event indicators.

// `table`: of --labels; null: the cache only. `options.horizons`: as requested or of a trained
// model; empty: the quartiles of the event times. An exam without a time or an indicator is masked.
// ConfigError: no such column; indicators that are neither 0 and 1 nor no and yes while
// `options.positive` is empty, or without the trained model's word; a horizon beyond which no exam
// is followed. DataError: a time that is not a number or is below 0, two times for one exam, no
// event to learn from.
Labels survival_labels(std::span<const cache::ExamInfo> exams, const CsvTable* table,
                       const LabelOptions& options);

// All targets to learn from a cohort, one or several, each with its own labels.

class Targets {
 public:
  Targets() = default;
  Targets(Labels one) : all_{std::move(one)} {}  // implicit: one target as a list
  // ConfigError unless all are per exam, or all per frame.
  explicit Targets(std::vector<Labels> all);

  std::size_t size() const { return all_.size(); }
  const Labels& operator[](std::size_t target) const { return all_[target]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  std::vector<Target> list() const { return {all_.begin(), all_.end()}; }
  std::string names() const;  // "a, b"

  std::size_t exams() const { return all_.front().value.size(); }
  // True if the exam has a label for at least one target.
  bool labeled(std::size_t exam) const;
  std::vector<std::size_t> labeled_exams() const;
  std::size_t labeled() const { return labeled_exams().size(); }
  void mask(std::size_t exam);

  bool per_frame() const { return all_.front().per_frame; }
  // Number of prediction rows of an exam: one, or one per present frame.
  std::size_t rows(std::size_t exam) const { return all_.front().rows(exam); }
  std::size_t rows(const std::vector<std::size_t>& exams) const;
  std::size_t outputs() const;  // of the model: of all targets, concatenated
  std::size_t first_output(std::size_t target) const;

  // Number of strata of all targets, concatenated.
  std::size_t strata() const;
  std::vector<std::size_t> count_strata(std::size_t exam) const;
  std::string stratum_name(std::size_t stratum) const;  // "'ill'", or "'ill' of 'outcome'"
  // True if the stratum is a class, not a bin: then it must not be empty.
  bool is_class(std::size_t stratum) const;

 private:
  std::vector<Labels> all_;
};

// The labelled rows of `exams`, or of their frames, in the form that metrics take. `scores` and
// `decision` cover all rows.
ScoredExams scored_rows(const Labels& labels, const std::vector<std::size_t>& exams,
                        std::span<const double> scores, std::span<const int> decision);

// The target's statistics over a training part: mean and deviation of a regression. Cox's baseline
// is added after the fit.
Readout readout_of(const Labels& labels, const std::vector<std::size_t>& train);

}  // namespace coldframe::temporal
