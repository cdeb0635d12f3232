// The target of a training run: one class per exam, from a column of the cache or from a CSV.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cache/exam.h"
#include "common/csv.h"

namespace coldframe::temporal {

inline constexpr int kUnlabeled = -1;

struct LabelOptions {
  std::string target;    // name of the column
  std::string positive;  // binary: which value is class 1; "" decides by the rule below
  // evaluate: the classes of the trained model, in its order; any other value is an error. A value
  // is taken as it is spelt, and as a number only if no class is spelt so. Empty: the classes are
  // those that the column holds.
  std::vector<std::string> known_classes;
};

struct Labels {
  std::string target;
  std::vector<std::string> classes;  // natural order; binary: {negative, positive}
  std::vector<int> value;            // per exam of the cache; kUnlabeled: masked
  std::size_t unlabeled = 0;
  std::string positive;               // binary only, else ""
  std::vector<std::string> notes;     // for the log: what was decided or left out
  std::vector<std::string> warnings;  // for the log and the report: what somebody should check

  bool binary() const { return classes.size() == 2; }
  std::size_t labeled() const { return value.size() - unlabeled; }
  std::vector<std::size_t> labeled_exams() const;  // indices
};

// An empty field, "nan" or "na" is no label. Values are text, but in a column of numbers "1.0" and
// "1" are one class. With two classes the positive one is `positive`, else 1 of the numbers {0, 1},
// else the last in natural order (a note says so).
// ConfigError: no such column (lists those there are), `positive` is not a class or there are more
// than two. DataError: no labels, a single class, too many classes, a value unknown to the model.
Labels labels_from_cache(std::span<const cache::ExamInfo> exams, const LabelOptions& options);

// The file (columns `exam` and the target) replaces the cache's column of that name: an exam that
// it does not list has no label. Conflicts with the cache's column and unknown exams are warnings;
// two different values for one exam are a DataError.
Labels labels_from_csv(std::span<const cache::ExamInfo> exams, const CsvTable& table,
                       const LabelOptions& options);

}  // namespace coldframe::temporal
