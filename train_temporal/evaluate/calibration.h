// Calibration of probabilities. Temperature and decision threshold are chosen on the validation
// part only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

// Row-wise softmax of logits / temperature, [N, C]. A binary model with one logit z passes {0, z}.
std::vector<double> softmax(std::span<const double> logits, std::size_t classes,
                            double temperature = 1.0);

// The temperature that minimises the log loss of softmax(logits / T) (Guo et al. 2017), within
// [0.05, 20]. 1 if there is nothing to learn from (no exams, or a single class).
double fit_temperature(std::span<const double> logits, std::size_t classes,
                       std::span<const int> label);

struct Threshold {
  double value = 0.5;
  MetricValue
      youden;  // sensitivity + specificity − 1 reached there; undefined: `value` is the default
};
// Binary: maximises Youden's J. Lies halfway between two adjacent scores; ties go to the one
// nearest to 0.5.
Threshold youden_threshold(std::span<const double> score, std::span<const int> positive);

// Bins of equal width over [0, 1]; a bin holds [low, high), the last one [low, 1]. Binary: the
// probability of class 1 versus the fraction of class 1. Multi-class: the highest probability
// versus the fraction of correct argmax decisions.
inline constexpr std::size_t kReliabilityBins = 15;
struct ReliabilityBin {
  std::size_t count = 0;
  double mean_probability = 0, observed = 0;  // 0 in an empty bin
  Spread spread;                              // of `observed`, by patient
};
// `patients`: of each exam; empty: without spreads.
std::vector<ReliabilityBin> reliability(const ScoredExams& exams,
                                        std::size_t bins = kReliabilityBins,
                                        std::span<const std::size_t> patients = {});
// Expected calibration error: Σ count/N · |observed − mean_probability|.
MetricValue expected_calibration_error(const ScoredExams& exams,
                                       std::size_t bins = kReliabilityBins);

// Unpenalised logistic regression of the label on the logit of p (binary): a calibrated model has
// slope 1 and intercept 0. p is clipped to [1e-7, 1 − 1e-7], the resolution of a float32 softmax.
struct CalibrationLine {
  MetricValue slope, intercept;
};
CalibrationLine calibration_line(std::span<const double> probability,
                                 std::span<const int> positive);

}  // namespace coldframe::temporal
