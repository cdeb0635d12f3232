#include "train_temporal/evaluate/operating_points.h"

#include <cmath>
#include <limits>
#include <set>

#include "common/text/text.h"
#include "train_temporal/evaluate/bounds.h"

namespace coldframe::temporal {

namespace {

// Shares of whole numbers reach a bound that is written in decimals.
constexpr double kRounding = 1e-12;

struct Ends {
  double low, high;
};

double squared_of(double x) {
  return x * x;
}

// a / b with the bounds of both. The formula is written without the differences that cancel, so
// that b may be 0.
Ends ratio_range(double a, Ends of_a, double b, Ends of_b) {
  const double ab = a * b;
  const double low_a = of_a.low * (2 * a - of_a.low), high_b = of_b.high * (2 * b - of_b.high);
  const double high_a = of_a.high * (2 * a - of_a.high), low_b = of_b.low * (2 * b - of_b.low);
  const double low = low_a / (ab + std::sqrt(std::max(squared_of(ab) - low_a * high_b, 0.0)));
  const double reach = ab + std::sqrt(std::max(squared_of(ab) - high_a * low_b, 0.0));
  return {of_a.low > 0 ? low : 0.0,
          low_b > 0 ? reach / low_b : std::numeric_limits<double>::infinity()};
}

// Odds before the test times the likelihood ratio are the odds after it.
double after(double odds, double ratio) {
  return std::isinf(ratio) ? 1.0 : odds * ratio / (1 + odds * ratio);
}

// `right`: the share of the class that is decided for it, `other`: that of the other class which is
// not.
Estimate predictive_value(const Estimate& right, const Estimate& other, double odds) {
  const double a = right.value.value, b = 1 - other.value.value;
  Estimate result;
  if (a == 0 && b == 0) {
    result.value = MetricValue::none("no exam is decided so");
    result.low = result.high = result.value;
    return result;
  }
  result.value = MetricValue::of(a * odds / (a * odds + b));
  result.low = result.high = right.low.defined() ? other.low : right.low;
  if (!result.low.defined()) return result;
  const auto bounds = [&](Ends of_right, Ends of_other) {
    const Ends ratio = ratio_range(a, of_right, b, {1 - of_other.high, 1 - of_other.low});
    return Ends{after(odds, ratio.low), after(odds, ratio.high)};
  };
  const Ends range =
      bounds({right.low.value, right.high.value}, {other.low.value, other.high.value});
  const Ends claim =
      bounds({right.claim_low, right.claim_high}, {other.claim_low, other.claim_high});
  result.low = MetricValue::of(range.low);
  result.high = MetricValue::of(range.high);
  result.claim_low = claim.low;
  result.claim_high = claim.high;
  return result;
}

// `flipped`: the classes change places.
OperatingPoint best_share(const ScoredExams& exams, double at_least, bool flipped) {
  const OneVsRest of = one_vs_rest(exams, 1);
  const MetricValue ranks = auroc(of.score, of.positive);
  if (!ranks.defined()) return {ranks, 0};
  const Curve curve = roc_curve(of.score, of.positive);
  OperatingPoint best{MetricValue::of(-1), 0};
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    const double sensitivity = curve.y[i], specificity = 1 - curve.x[i];
    const double share = flipped ? specificity : sensitivity;
    if ((flipped ? sensitivity : specificity) < at_least - kRounding) continue;
    if (share > best.share.value) best = {MetricValue::of(share), curve.threshold[i]};
  }
  return best;
}

// The mean is over the repeats that have one.
OperatingPoint mean_point(std::span<const FoldScores> repeats, PointOf point_of, double at_least) {
  OperatingPoint mean{MetricValue::of(0), 0};
  double count = 0, reached = 0;
  MetricValue none = MetricValue::none("no folds");
  for (const FoldScores& repeat : repeats) {
    const OperatingPoint point = point_of(repeat.exams, at_least);
    if (!point.share.defined()) none = point.share;
    if (!point.share.defined()) continue;
    mean.share.value += point.share.value;
    count += 1;
    if (std::isinf(point.threshold)) continue;  // above all scores: no exam is decided for
    mean.threshold += point.threshold;
    reached += 1;
  }
  if (count == 0) return {none, 0};
  mean.share.value /= count;
  mean.threshold = reached > 0 ? mean.threshold / reached : std::numeric_limits<double>::infinity();
  return mean;
}

std::size_t patients_of(std::span<const FoldScores> folds, int of_class) {
  std::set<std::size_t> patients;
  for (const FoldScores& fold : folds) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i)
      if (fold.exams.label[i] == of_class) patients.insert(fold.patient[i]);
  }
  return patients.size();
}

double variance_over_resamples(std::span<const FoldScores> folds, PointOf point_of, double at_least,
                               const BootstrapOptions& options) {
  double n = 0, mean = 0, squares = 0;  // Welford's
  for (std::size_t r = 0; r < options.resamples; ++r) {
    std::vector<ScoredExams> drawn = resample_folds(folds, options.seed, r);
    std::vector<FoldScores> parts;
    for (std::size_t f = 0; f < folds.size(); ++f)
      parts.push_back({folds[f].repeat, folds[f].fold, std::move(drawn[f]), {}});
    const OperatingPoint point = mean_point(pooled_by_repeat(parts), point_of, at_least);
    if (!point.share.defined()) continue;
    n += 1;
    const double change = point.share.value - mean;
    mean += change / n;
    squares += change * (point.share.value - mean);
  }
  return n > 1 ? squares / (n - 1) : 0;
}

}  // namespace

PredictiveValues predictive_values(const Estimate& sensitivity, const Estimate& specificity,
                                   double prevalence) {
  if (!sensitivity.value.defined()) return {sensitivity, sensitivity};
  if (!specificity.value.defined()) return {specificity, specificity};
  const double odds = prevalence / (1 - prevalence);
  return {predictive_value(sensitivity, specificity, odds),
          predictive_value(specificity, sensitivity, 1 / odds)};
}

OperatingPoint sensitivity_at(const ScoredExams& exams, double at_least) {
  return best_share(exams, at_least, false);
}

OperatingPoint specificity_at(const ScoredExams& exams, double at_least) {
  return best_share(exams, at_least, true);
}

OperatingEstimate operating_point(std::span<const FoldScores> folds, PointOf point_of,
                                  double at_least, const BootstrapOptions& options) {
  const OperatingPoint point = mean_point(pooled_by_repeat(folds), point_of, at_least);
  OperatingEstimate result{{point.share, point.share, point.share}, point.threshold};
  if (!point.share.defined()) return result;
  Spread spread;
  spread.units = patients_of(folds, point_of == sensitivity_at ? 1 : 0);
  const std::size_t least = metric_named("sensitivity")->min_units;
  if (spread.units < least) {
    result.share.low = result.share.high =
        MetricValue::none(too_small_a_sample(spread.units, /*are_pairs=*/false, least));
    return result;
  }
  spread.trials = static_cast<double>(spread.units);
  spread.freedom = spread.trials - 1;
  spread.variance = variance_over_resamples(folds, point_of, at_least, options);
  const Bounds bounds = share_bounds(point.share.value, spread, options.level);
  result.share.low = bounds.low;
  result.share.high = bounds.high;
  return result;
}

DecisionCurve decision_curve(const ScoredExams& exams) {
  DecisionCurve curve;
  const auto n = static_cast<double>(exams.size());
  for (int percent = 1; percent < 100; ++percent) {
    const double threshold = percent / 100.0, cost = threshold / (1 - threshold);
    double model = 0, all = 0;
    for (std::size_t i = 0; i < exams.size(); ++i) {
      const double worth = exams.label[i] == 1 ? 1 : -cost;
      all += worth;
      if (exams.score(i, 1) >= threshold) model += worth;
    }
    curve.threshold.push_back(threshold);
    curve.model.push_back(model / n);
    curve.all.push_back(all / n);
  }
  return curve;
}

}  // namespace coldframe::temporal
