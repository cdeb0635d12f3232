#include "train_temporal/metrics/intervals/intervals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>

#include "common/text/text.h"
#include "train_temporal/metrics/intervals/spread.h"

namespace coldframe::temporal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> values(const std::vector<MetricValue>& figures) {
  std::vector<double> result;
  for (const MetricValue& figure : figures) result.push_back(figure.value);
  return result;
}

double sd_defined(std::span<const double> numbers) {
  const double mean = mean_defined(numbers);
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += (number - mean) * (number - mean);
    count += 1;
  }
  return count > 1 ? std::sqrt(sum / (count - 1)) : kNan;
}

// The mean of the defined ones, or the first one's reason.
MetricValue mean_figure(const std::vector<MetricValue>& figures) {
  const double mean = mean_defined(values(figures));
  if (!std::isnan(mean)) return MetricValue::of(mean);
  return MetricValue::none(figures.empty() ? "no folds" : figures.front().undefined);
}

std::vector<MetricValue> minus(const std::vector<MetricValue>& a,
                               const std::vector<MetricValue>& b) {
  std::vector<MetricValue> result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) {
      result.push_back(a[i].defined() ? b[i] : a[i]);
    } else {
      result.push_back(MetricValue::of(a[i].value - b[i].value));
    }
  }
  return result;
}

const std::vector<MetricValue>& figures_of(const MetricTable& table, std::size_t m,
                                           Aggregation taken) {
  return taken == Aggregation::kOverFolds ? table.per_fold[m] : table.pooled[m];
}

// Large losses are rare, so that a sample shows less skewness than there is (Cox 2010, Speaking
// Stata: the limits of sample skewness and kurtosis; Bono et al. 2020, Bias, precision, and
// accuracy of skewness and kurtosis estimators): with so much more, intervals of few patients hold
// the truth often enough (interval_coverage). Models that are compared would share what is unseen.
constexpr double kUnseenSkewness = 1;

Estimate estimate_of(const MetricTable& table, std::size_t m, Aggregation taken,
                     double unseen_skewness = 0) {
  Estimate result{mean_figure(figures_of(table, m, taken)), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  const double value = result.value.value;
  Spread spread = spread_of(table, m, taken, changes_of(table, m, taken, value));
  spread.skewness += unseen_skewness / std::sqrt(static_cast<double>(spread.units));
  if (std::isnan(spread.variance)) {
    result.low = result.high = MetricValue::none(
        "too small a sample to bound: it is undefined without one of the patients");
    return result;
  }
  const Bounds bounds = bounds_of(table.metrics[m], value, spread, table.level);
  const Bounds claimed = bounds_of(table.metrics[m], value, spread, kClaimLevel);
  return {result.value, bounds.low, bounds.high, claimed.low.value, claimed.high.value};
}

std::string too_coarse(const MetricTable& table, std::size_t m, Aggregation taken) {
  const std::size_t units = units_of(table, m, taken);
  const std::size_t least = table.metrics[m]->least_in_differences;
  if (units >= least) return {};
  return concat("too small a sample to bound: ", units, " patients, ", least, " needed");
}

// Decisions, and few ranks, may be the same by chance; all figures are so of one model only.
bool are_the_same(const MetricTable& a, const MetricTable& b) {
  const auto equal = [](const MetricValue& x, const MetricValue& y) {
    return x.value == y.value || (!x.defined() && !y.defined());
  };
  return std::ranges::equal(a.pooled, b.pooled, [&](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, equal);
  });
}

double squared(double x) {
  return x * x;
}

// A difference reaches this far where its parts reach so far and are correlated by `r` (Zou and
// Donner 2008).
double joined(double of_x, double of_y, double r) {
  return std::sqrt(std::max(0.0, squared(of_x) - 2 * r * of_x * of_y + squared(of_y)));
}

// R² of both models divide by the same deviations, so that the difference is one ratio, and bounded
// by its own error.
void bound_by_itself(Estimate& difference, const Influences& x, const Influences& y, double level) {
  Influences changes = x;
  std::ranges::transform(x.by, y.by, changes.by.begin(), std::minus{});
  const double error = std::sqrt(covariance(changes, changes)), freedom = freedom_of(changes);
  const auto reach = [&](double of) { return error * student_quantile((1 + of) / 2, freedom); };
  const double d = difference.value.value;
  difference.low = MetricValue::of(d - reach(level));
  difference.high = MetricValue::of(d + reach(level));
  difference.claim_low = d - reach(kClaimLevel);
  difference.claim_high = d + reach(kClaimLevel);
}

// With the correlation that leaving out patients shows.
void bound_by_parts(Estimate& difference, const Estimate& x, const Estimate& y, double r) {
  const double d = difference.value.value, a = x.value.value, b = y.value.value;
  difference.low = MetricValue::of(d - joined(a - x.low.value, y.high.value - b, r));
  difference.high = MetricValue::of(d + joined(x.high.value - a, b - y.low.value, r));
  difference.claim_low = d - joined(a - x.claim_low, y.claim_high - b, r);
  difference.claim_high = d + joined(x.claim_high - a, b - y.claim_low, r);
}

Estimate difference_of(const MetricTable& a, const MetricTable& b, std::size_t m,
                       Aggregation taken) {
  const Estimate x = estimate_of(a, m, taken), y = estimate_of(b, m, taken);
  Estimate result{mean_figure(minus(figures_of(a, m, taken), figures_of(b, m, taken))), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  result.low = result.high = x.low.defined() ? y.low : x.low;
  const Influences dx = changes_of(a, m, taken, x.value.value);
  const Influences dy = changes_of(b, m, taken, y.value.value);
  if (const std::string why = too_coarse(a, m, taken); !why.empty()) {
    result.low = result.high = MetricValue::none(why);
  }
  if (!result.low.defined()) return result;
  const double vx = covariance(dx, dx), vy = covariance(dy, dy);
  const double r = vx > 0 && vy > 0 ? covariance(dx, dy) / std::sqrt(vx * vy) : 0;
  const bool equal = vx > 0 && dx.by == dy.by && x.value.value == y.value.value;
  if (equal && are_the_same(a, b)) {
    result.low = result.high = result.value;
    result.claim_low = result.claim_high = result.value.value;
  } else if (a.metrics[m]->shape == Shape::kBelowOne) {
    bound_by_itself(result, dx, dy, a.level);
  } else {
    bound_by_parts(result, x, y, std::clamp(r, -1.0, 1.0));
  }
  return result;
}

Estimate not_over_folds() {
  const MetricValue none = MetricValue::none("taken from all folds together");
  return {none, none, none};
}

bool over_folds(const MetricTable& table, std::size_t m) {
  return table.metrics[m]->over_folds;
}

// Both models of a difference have the same labels, and so the same folds.
bool most_folds_have_it(const MetricTable& table, std::size_t m) {
  const auto defined = std::ranges::count_if(table.per_fold[m], &MetricValue::defined);
  return over_folds(table, m) && defined > 0 &&
         2 * static_cast<std::size_t>(defined) >= table.per_fold[m].size();
}

}  // namespace

std::vector<MetricSummary> summarize(const MetricTable& table) {
  std::vector<MetricSummary> result;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    MetricSummary& summary = result.emplace_back();
    summary.metric = table.metrics[m];
    summary.mean_over_folds =
        over_folds(table, m) ? estimate_of(table, m, Aggregation::kOverFolds) : not_over_folds();
    summary.pooled = estimate_of(table, m, Aggregation::kPooled, kUnseenSkewness);
    summary.sd_over_folds = sd_defined(values(table.per_fold[m]));
    summary.per_fold = table.per_fold[m];
    summary.by_fold = most_folds_have_it(table, m);
  }
  return result;
}

std::vector<PairedDifference> paired_differences(const MetricTable& a, const MetricTable& b) {
  assert(a.metrics == b.metrics && a.blocks.size() == b.blocks.size());
  std::vector<PairedDifference> result;
  for (std::size_t m = 0; m < a.metrics.size(); ++m) {
    PairedDifference& difference = result.emplace_back();
    difference.metric = a.metrics[m];
    difference.mean_over_folds =
        over_folds(a, m) ? difference_of(a, b, m, Aggregation::kOverFolds) : not_over_folds();
    difference.pooled = difference_of(a, b, m, Aggregation::kPooled);
    difference.by_fold = most_folds_have_it(a, m);
  }
  return result;
}

Estimate unpaired_difference(const Estimate& a, const Estimate& b) {
  Estimate result{minus({a.value}, {b.value}).front(), {}, {}};
  result.low = result.high = !result.value.defined() ? result.value
                             : a.low.defined()       ? b.low
                                                     : a.low;
  if (result.low.defined()) bound_by_parts(result, a, b, 0);
  return result;
}

}  // namespace coldframe::temporal
