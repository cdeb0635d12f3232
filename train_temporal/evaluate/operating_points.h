// Figures at a threshold that a clinic would choose, and what a decision by the model is worth
// there. Binary targets alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {

// The predictive values where a share `prevalence` is ill, whatever it is in the sample, by Bayes'
// rule. Both are ratios of sensitivity and specificity, of whose intervals theirs are joined
// (MOVER-R: Donner and Zou 2012, Closed-form confidence intervals for functions of the normal mean
// and standard deviation), so that they mean something where one of these is 1.
struct PredictiveValues {
  Estimate positive, negative;
};
PredictiveValues predictive_values(const Estimate& sensitivity, const Estimate& specificity,
                                   double prevalence);

// A point of the ROC curve.
struct OperatingPoint {
  MetricValue share;     // the highest that the curve has
  double threshold = 0;  // decides for the positive class from here on
};
// The highest sensitivity whose specificity is `at_least` or more, and the other way round.
OperatingPoint sensitivity_at(const ScoredExams& exams, double at_least);
OperatingPoint specificity_at(const ScoredExams& exams, double at_least);

// The same of the exams of all folds together, the mean over repeats (and over their thresholds).
// The point depends on single exams, which the jackknife cannot follow: the variance is that over
// resamples of patients, and never less than that of a share among as many patients of its class;
// the interval is the score interval that it makes.
struct OperatingEstimate {
  Estimate share;
  double threshold = 0;
};
using PointOf = OperatingPoint (*)(const ScoredExams& exams, double at_least);
OperatingEstimate operating_point(std::span<const FoldScores> folds, PointOf point_of,
                                  double at_least, const BootstrapOptions& options);

// The net benefit of treating from a probability on, in true positives per exam: each false one
// costs what that probability says it is worth (Vickers and Elkin 2006).
struct DecisionCurve {
  std::vector<double> threshold, model, all;  // treating none is worth 0
};
// At 0.01, 0.02, … up to 0.99.
DecisionCurve decision_curve(const ScoredExams& exams);

}  // namespace coldframe::temporal
