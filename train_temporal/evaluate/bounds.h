// Intervals of one figure from its standard error, each on the scale that fits the figure, and the
// bounds that hold where there is no standard error.
#pragma once

#include <cstddef>

#include "train_temporal/evaluate/metric_table.h"

namespace coldframe::temporal {

// A figure's error, as far as it is known.
struct Spread {
  double variance = 0;
  double freedom = 0;     // degrees of it
  std::size_t units = 0;  // independent patients, or pairs of them, that it rests on
  bool are_pairs = false;
  // Trials of a share that patients are where the exams of each agree; 0: unknown.
  double trials = 0;
  // The patients' part in the error has this coefficient of skewness over √n, as G1 of Joanes and
  // Gill 1998, and these degrees of freedom that a variance has by its kurtosis, 2 / CV²
  // (Satterthwaite 1946; Mood, Graybill and Boes 1974, theorem VI.2): few where few patients make
  // up most of it.
  double skewness = 0, freedom_of_variance = 0;
};

struct Bounds {
  MetricValue low, high;
};

// `level`: 0.95.
// Shares and rank statistics: the score interval of a proportion (Wilson 1927) among as many trials
// as have the figure's variance (Korn and Graubard 1998), with Student's quantile. Near 1 a few
// patients decide about that variance, and it is often far too small: it is moderated (Smyth 2004,
// eq. 2 of its section 3) towards that of `trials`, which counts as one degree of freedom.
// Correlations and kappa: the same on (1 + x) / 2.
// Errors and losses: most patients have small ones and few have large ones; Student's statistic of
// such a mean is made symmetric (Hall 1992, On the removal of skewness by transformation, g2).
// R² is on the logarithm of 1 − R², the calibration line as it is.
// A figure that no patient contradicts, such as an AUROC of 1, is bounded by what `units`
// independent trials without a failure exclude: α^(1/n), of which 3/n is the rule of thumb. An
// AUROC is 1 only if all disjoint pairs of an ill and a healthy patient are in order, so that these
// pairs are its trials.
// Undefined, with the reason, where the sample is too small, and of the ECE, which binning biases
// upwards.
Bounds bounds_of(Metric metric, double value, const Spread& spread, double level);

// No value of the metric is outside of these.
struct MetricRange {
  double low, high;
};
MetricRange range_of(Metric metric);

// The same for a share alone, whatever the size of its sample.
Bounds share_bounds(double share, const Spread& spread, double level);

double normal_quantile(double share);
double student_quantile(double share, double freedom);  // of two degrees of freedom or more

}  // namespace coldframe::temporal
