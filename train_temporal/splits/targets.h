// All that is to be learnt of a cohort: one target or several, each with its own labels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

class Targets {
 public:
  Targets() = default;
  Targets(Labels one) : all_{std::move(one)} {}  // what takes several takes one
  // ConfigError unless all are of exams, or all of frames.
  explicit Targets(std::vector<Labels> all);

  std::size_t size() const { return all_.size(); }
  const Labels& operator[](std::size_t target) const { return all_[target]; }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  std::vector<Target> list() const { return {all_.begin(), all_.end()}; }
  std::string names() const;  // "a, b"

  std::size_t exams() const { return all_.front().value.size(); }
  // An exam takes part when it has a label for one of the targets.
  bool labeled(std::size_t exam) const;
  std::vector<std::size_t> labeled_exams() const;
  std::size_t labeled() const { return labeled_exams().size(); }
  void mask(std::size_t exam);

  bool per_frame() const { return all_.front().per_frame; }
  // Rows of predictions of an exam: one, or one per present frame.
  std::size_t rows(std::size_t exam) const { return all_.front().rows(exam); }
  std::size_t rows(const std::vector<std::size_t>& exams) const;
  std::size_t outputs() const;  // of the model: those of all targets side by side
  std::size_t first_output(std::size_t target) const;

  // Strata of all targets, one target's after the other's.
  std::size_t strata() const;
  std::vector<std::size_t> count_strata(std::size_t exam) const;
  std::string stratum_name(std::size_t stratum) const;  // "'ill'", or "'ill' of 'outcome'"
  // True when an empty stratum matters: it is a class, not a bin.
  bool is_class(std::size_t stratum) const;

 private:
  std::vector<Labels> all_;
};

// The rows of `exams`, or of their frames, that have a label, as metrics want them. `scores` and
// `decision` have all rows.
ScoredExams scored_rows(const Labels& labels, const std::vector<std::size_t>& exams,
                        std::span<const double> scores, std::span<const int> decision);

// The target's statistics over a training part: mean and deviation of a regression. Cox's baseline
// follows when the fit is done.
Readout readout_of(const Labels& labels, const std::vector<std::size_t>& train);

}  // namespace coldframe::temporal
