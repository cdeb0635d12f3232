// Conformal prediction: sets of classes, or intervals of numbers, that hold the truth of an exam of
// a new patient with a stated probability, whatever the model (Vovk, Gammerman and Shafer 2005;
// Angelopoulos and Bates 2021, arXiv:2107.07511). It rests on held-out exams whose truth is known.
// A score says how little a truth suits a prediction: 1 − its probability (LAC: Sadinle, Lei and
// Wasserman 2019), or |prediction − number|. Classes are calibrated one by one (Mondrian: Vovk
// 2012), so that each is held as often. A patient counts once: each of n exams weighs 1/n, and the
// new patient's weighs 1 (Lee, Barber and Willett 2023, arXiv:2306.06342; Dunn, Wasserman and
// Ramdas 2023). Where every fold's models predict the new exam, it is held against each held-out
// exam by the models that did not see that one (cross-conformal: Vovk 2015; for numbers CV+: Barber
// et al. 2021).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/subgroups.h"

namespace coldframe::temporal {

// The score of a held-out exam's truth.
struct HeldOutScore {
  std::size_t fold = 0;  // that held it out; any numbering from 0 on
  std::size_t patient = 0;
  std::size_t of_class = 0;  // 0 of numbers
  double score = 0;
};
// Of all exams; folds are numbered by their places.
std::vector<HeldOutScore> held_out_scores(std::span<const FoldScores> folds);

// A class, or all exams of numbers, with too few patients for a bounded set.
struct TooFewPatients {
  std::size_t of_class = 0, patients = 0, needed = 0;
};

class ConformalSets {
 public:
  // `classes`: 0 of numbers. `level`: 0.9, strictly between 0 and 1.
  ConformalSets(std::span<const HeldOutScore> scores, std::size_t classes, double level);

  // The class with the fewest patients, unless they are enough. Without enough of them sets hold
  // the class always, and intervals are infinite.
  std::optional<TooFewPatients> too_few() const;
  // The score up to which a set holds the class, if one model predicts all exams (split conformal).
  double quantile(std::size_t of_class) const;
  // True if the set holds the class, whose scores are `score` by the models of each fold.
  bool holds(std::size_t of_class, std::span<const double> score) const;
  // Low and high, from the predictions of each fold's models.
  std::pair<double, double> interval(std::span<const double> prediction) const;

 private:
  struct Weighted {
    double score, weight;
    std::size_t fold;
  };
  struct OfClass {
    std::vector<Weighted> scores;
    std::size_t patients = 0;
    double needed = 0;  // weight: level · (patients + 1)
  };
  double level_;
  std::vector<OfClass> classes_;
};

// How often sets held the truth of held-out exams, each fold's calibrated on the other folds of its
// repeat. A patient counts once.
struct SetFigures {
  std::size_t exams = 0, patients = 0;
  Estimate coverage;
  double size = 0;  // mean number of classes in a set, or mean width of an interval
  std::vector<MetricValue> per_fold = {};  // coverage of each fold's exams; none of subgroups
};
struct SetCoverage {
  double level = 0;
  std::optional<TooFewPatients> too_few = {};  // then there are no figures
  SetFigures all = {};
  std::vector<SetFigures> of_class = {};
  std::vector<std::vector<SetFigures>> of_group = {};  // [column][value]
};
// At least two folds. `classes`: 0 of numbers. `interval_level`: of the coverage's interval.
SetCoverage coverage_of_sets(std::span<const FoldScores> folds, std::size_t classes, double level,
                             double interval_level, std::span<const SubgroupColumn> columns);

}  // namespace coldframe::temporal
