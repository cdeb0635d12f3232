// Common base of the classification tasks.
#pragma once

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

class ClassKind : public TaskKind {
  static constexpr int kMaxExampleClasses = 3;

 public:
  using TaskKind::TaskKind;

  bool names_classes() const override { return true; }
  bool is_sound(const Target& target) const override { return target.classes.size() >= 2; }
  double label_from(const Target& target, std::span<const std::string> fields) const override {
    const auto found = std::ranges::find(target.classes, fields[0]);
    return found == target.classes.end() ? std::nan("")
                                         : static_cast<double>(found - target.classes.begin());
  }
  std::string expected_label(const Target& target) const override {
    return "one of " + join(target.classes, ", ");
  }
  std::string label_text(const Target& target, double label) const override {
    return std::isnan(label) ? "" : target.classes[static_cast<std::size_t>(label)];
  }
  void add_label(ScoredExams& exams, double label) const override {
    exams.label.push_back(static_cast<int>(label));
  }
  std::string stratum_name(const Target& target, std::size_t stratum, std::size_t) const override {
    return target.classes[stratum];
  }
  bool is_class(std::size_t) const override { return true; }
  std::vector<std::string> group_names(const Target& target) const override {
    return target.classes;
  }
  std::size_t scores(const Target& target) const override { return target.classes.size(); }
  std::vector<std::string> score_names(const Target& target) const override {
    return target.classes;
  }
  std::vector<std::string> score_columns(const Target& target) const override {
    std::vector<std::string> names = target.classes;
    for (std::string& one : names) one = "p_" + one;
    return names;
  }
  std::string explained_output(const Target& target, std::size_t of_class) const override {
    return concat("P(", target.classes[of_class], ")");
  }
  std::vector<Example> examples(double label, std::span<const double> scores,
                                int decision) const override {
    if (decision >= kMaxExampleClasses) return {};
    return {{decision, decision == static_cast<int>(label),
             scores[static_cast<std::size_t>(decision)]}};
  }
  const char* explained_exams() const override {
    return "The surest right and the surest wrong decision for each class";
  }
  std::string explained_title(const Target& target, double label, std::span<const double>,
                              int decision) const override {
    const auto truth = static_cast<std::size_t>(label),
               decided = static_cast<std::size_t>(decision);
    return concat(target.classes[truth], truth == decided
                                             ? std::string(", recognised")
                                             : concat(", taken for ", target.classes[decided]));
  }
};

}  // namespace coldframe::temporal
