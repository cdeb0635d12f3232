// Confidence intervals of a metric from its standard error, on the scale that suits the metric, and
// bounds for cases without a standard error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/evaluate/metric_table.h"

namespace coldframe::temporal {

// What is known of a metric's error.
struct Spread {
  double variance = 0;
  double freedom = 0;     // degrees of freedom
  std::size_t units = 0;  // independent patients, or pairs, on which it rests
  bool are_pairs = false;
  // Number of binomial trials that the patients represent if each one's exams agree; 0: unknown.
  double trials = 0;
  // Of the patients' contribution to the error: skewness over √n (G1 of Joanes and Gill 1998), and
  // the degrees of freedom of its variance by kurtosis, 2 / CV² (Satterthwaite 1946; Mood, Graybill
  // and Boes 1974, theorem VI.2), which are low if few patients dominate.
  double skewness = 0, freedom_of_variance = 0;
  // Of a mean of classes, or of targets: each one's value and units, and how many of these it has
  // where no patient is in two parts. Empty: it is no such mean, and rests on `units`.
  struct Part {
    double value, units, apart;
  };
  std::vector<Part> parts = {};
  bool parts_may_agree = false;  // targets, whose errors may be those of the same patients
};

// Of how much fits differ, beyond what their patients explain.
struct FitSpread {
  double variance = 0, freedom = 0;
};

struct Bounds {
  MetricValue low, high;
};

// `level`: 0.95. Proportions and rank statistics: the score interval of a proportion (Wilson 1927)
// with the effective number of trials that gives the metric's variance (Korn and Graubard 1998) and
// Student's quantile. Near 1 a few patients determine that variance, and it is often far too small:
// it is moderated (Smyth 2004, eq. 2 of section 3) towards that of `trials`, which counts as one
// degree of freedom. Correlations and kappa: the same on (1 + x) / 2. Errors and losses: most
// patients have small ones and few have large ones, so Student's statistic is symmetrised (Hall
// 1992, On the removal of skewness by transformation, g2). R²: on log(1 − R²). Calibration line:
// untransformed. A metric that no patient contradicts, such as an AUROC of 1, is bounded by what
// `units` independent trials without a failure exclude, α^(1/n) (rule of thumb: 3/n), or by the
// score interval of `trials`, whichever says more. An AUROC is 1 only if all disjoint pairs of an
// ill and a healthy patient are in order, so these pairs are its units. A mean of classes is
// bounded by the least mean of shares t with Π tᵢ^nᵢ ≥ α; where some have failures, no lower than
// by the score intervals of all: of classes as if they were independent (MOVER: Zou and Donner
// 2008), of targets as if all were at their lower ends at once, since they share their patients.
// What some patient contradicts is never bounded more tightly. Undefined, with the reason, if the
// sample is too small, and for the ECE, which binning biases upwards.
Bounds bounds_of(Metric metric, double value, const Spread& spread, double level);

// The range of possible values of a metric.
struct MetricRange {
  double low, high;
};
MetricRange range_of(Metric metric);
double largest_difference(Metric metric);

// The least mean of shares t, one for each part, such that as many trials as `units` says of each
// succeed all together with the probability `chance`: Π tᵢ^unitsᵢ = chance, tᵢ ≤ 1.
double least_mean(std::vector<double> units, double chance);

// Why so few units bound nothing; `needed`: how many would, 0 if that is not known.
std::string too_small_a_sample(std::size_t units, bool are_pairs, std::size_t needed = 0);
// True of bounds that exclude no value.
bool is_any_value(const Bounds& bounds, const MetricRange& range);

// Of a difference between two models on the same patients, or between two shares of them.
// `patients` is the spread of the difference itself, for an AUROC that of DeLong et al. 1988, and
// `most` the largest difference that is possible. Student's statistic with Satterthwaite's degrees
// of freedom, from both spreads; those of the patients' variance count by their kurtosis where that
// leaves fewer, as it does where few patients tell the models apart. Where the patients'
// contributions are skewed, the interval reaches as far as Hall's (see bounds_of) on the longer
// side.
Bounds difference_bounds(double difference, const Spread& patients, const FitSpread& fits,
                         double most, double level);

// bounds_of() for a proportion, whatever the sample size.
Bounds share_bounds(double share, const Spread& spread, double level);

double normal_quantile(double share);
double student_quantile(double share, double freedom);  // freedom ≥ 2

}  // namespace coldframe::temporal
