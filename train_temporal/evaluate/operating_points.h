// Metrics at a clinically chosen threshold, and decision curves. Binary targets only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {

// The predictive values at a given prevalence, independent of that of the sample, by Bayes' rule.
// Both are ratios of sensitivity and specificity; their intervals are combined from those of the
// two (MOVER-R: Donner and Zou 2012, Closed-form confidence intervals for functions of the normal
// mean and standard deviation), so that they are meaningful even if one of the two is 1.
struct PredictiveValues {
  Estimate positive, negative;
};
PredictiveValues predictive_values(const Estimate& sensitivity, const Estimate& specificity,
                                   double prevalence);

// A point of the ROC curve.
struct OperatingPoint {
  MetricValue share;     // the highest on the curve
  double threshold = 0;  // scores ≥ threshold are positive
};
// The highest sensitivity with specificity ≥ `at_least`, and vice versa.
OperatingPoint sensitivity_at(const ScoredExams& exams, double at_least);
OperatingPoint specificity_at(const ScoredExams& exams, double at_least);

// The same for the pooled exams of all folds, averaged over repeats (thresholds, too). The point
// depends on single exams, where the jackknife fails: the variance comes from bootstrap resamples
// of patients, with the binomial variance for the number of patients of the class as its minimum;
// the interval is the corresponding score interval.
struct OperatingEstimate {
  Estimate share;
  double threshold = 0;
};
using PointOf = OperatingPoint (*)(const ScoredExams& exams, double at_least);
OperatingEstimate operating_point(std::span<const FoldScores> folds, PointOf point_of,
                                  double at_least, const BootstrapOptions& options);

// The net benefit of treating above a threshold probability, in true positives per exam; the odds
// of the threshold weigh false positives (Vickers and Elkin 2006).
struct DecisionCurve {
  std::vector<double> threshold, model, all;  // treating none has net benefit 0
};
// At 0.01, 0.02, … up to 0.99.
DecisionCurve decision_curve(const ScoredExams& exams);

}  // namespace coldframe::temporal
