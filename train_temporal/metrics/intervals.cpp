#include "train_temporal/metrics/intervals.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

#include "common/text/text.h"
#include "train_temporal/metrics/bounds.h"

namespace coldframe::temporal {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> values(const std::vector<Figure>& figures) {
  std::vector<double> result;
  for (const Figure& figure : figures) result.push_back(figure.value);
  return result;
}

// Mean of what is defined; NaN when nothing is.
double mean_defined(std::span<const double> numbers) {
  double sum = 0, count = 0;
  for (double number : numbers) {
    if (std::isnan(number)) continue;
    sum += number;
    count += 1;
  }
  return count > 0 ? sum / count : kNan;
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
Figure mean_figure(const std::vector<Figure>& figures) {
  const double mean = mean_defined(values(figures));
  if (!std::isnan(mean)) return Figure::of(mean);
  return Figure::none(figures.empty() ? "no folds" : figures.front().undefined);
}

std::vector<Figure> minus(const std::vector<Figure>& a, const std::vector<Figure>& b) {
  std::vector<Figure> result;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) {
      result.push_back(a[i].defined() ? b[i] : a[i]);
    } else {
      result.push_back(Figure::of(a[i].value - b[i].value));
    }
  }
  return result;
}

// A figure is the mean over folds, or the pooled one.
enum class Taken { kOverFolds, kPooled };

const std::vector<Figure>& figures_of(const MetricTable& table, std::size_t m, Taken taken) {
  return taken == Taken::kOverFolds ? table.per_fold[m] : table.pooled[m];
}

const std::vector<double>& row_of(const MetricTable::Block& block, std::size_t m, Taken taken) {
  return taken == Taken::kOverFolds ? block.without[m].fold : block.without[m].pooled;
}

// A figure without each block; blocks that have no exams here are left out.
struct Deleted {
  std::vector<double> value;
  std::vector<std::pair<std::size_t, int>> stratum;  // fold (of means over folds), class
};

// Figures that do not depend on how many exams there are of each class: that this varies from
// sample to sample is no part of their error.
bool is_given_classes(Metric metric) {
  return metric == Metric::kAuroc || metric == Metric::kSensitivity ||
         metric == Metric::kSpecificity || metric == Metric::kBalancedAccuracy ||
         metric == Metric::kCalibrationSlope;
}

Deleted deleted_values(const MetricTable& table, std::size_t m, Taken taken) {
  Deleted deleted;
  for (const MetricTable::Block& block : table.blocks) {
    if (block.of_class < 0) continue;
    deleted.value.push_back(mean_defined(row_of(block, m, taken)));
    deleted.stratum.emplace_back(taken == Taken::kOverFolds ? block.fold : 0,
                                 is_given_classes(table.metrics[m]) ? block.of_class : 0);
  }
  return deleted;
}

// The patients that differ, and how: the product of two figures' changes, by stratum.
struct Covariance {
  double sum = 0, freedom = 0;
};

// (g − 1) / g · Σ (a − ā)(b − b̄) over the g patients of each stratum; one alone is compared with
// the figure itself. The degrees of freedom are Satterthwaite's over classes. NaN where the figure
// is undefined without one of the patients.
Covariance covariance(const Deleted& a, double a_value, const Deleted& b, double b_value) {
  struct Sums {
    double n = 0, a = 0, b = 0, ab = 0;
  };
  std::map<std::pair<std::size_t, int>, Sums> strata;
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    Sums& sums = strata[a.stratum[i]];
    const double da = a.value[i] - a_value, db = b.value[i] - b_value;
    sums.n += 1;
    sums.a += da;
    sums.b += db;
    sums.ab += da * db;
  }
  std::map<int, Covariance> of_class;
  for (const auto& [stratum, sums] : strata) {
    Covariance& one = of_class[stratum.second];
    one.sum += sums.n > 1 ? (sums.n - 1) / sums.n * (sums.ab - sums.a * sums.b / sums.n) : sums.ab;
    one.freedom += std::max(sums.n - 1, 1.0);
  }
  Covariance all;
  double squares = 0;
  for (const auto& [of, one] : of_class) {
    all.sum += one.sum;
    all.freedom += one.freedom;
    squares += one.sum * one.sum / one.freedom;
  }
  if (squares > 0) all.freedom = all.sum * all.sum / squares;
  return all;
}

// What a perfect figure rests on: all patients, or those of the class that has the fewest where
// each class counts by itself.
std::size_t units_of(const MetricTable& table, std::size_t m, Taken taken) {
  const auto& patients = table.patients_of_class;
  if (patients.empty()) return table.blocks.size();
  switch (table.metrics[m]) {
    case Metric::kAuroc:
      return taken == Taken::kOverFolds ? table.pairs : *std::ranges::min_element(patients);
    case Metric::kSensitivity:
      return patients[1];
    case Metric::kSpecificity:
      return patients[0];
    case Metric::kAccuracy:
    case Metric::kKappa:
    case Metric::kQuadraticKappa:
    case Metric::kBrier:
    case Metric::kLogLoss:
    case Metric::kClassMae:
      return table.patients;
    default:
      return *std::ranges::min_element(patients);
  }
}

bool are_pairs(const MetricTable& table, std::size_t m, Taken taken) {
  return table.metrics[m] == Metric::kAuroc && taken == Taken::kOverFolds;
}

Estimate estimate_of(const MetricTable& table, std::size_t m, Taken taken) {
  Estimate result{mean_figure(figures_of(table, m, taken)), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  const double value = result.value.value;
  const Deleted deleted = deleted_values(table, m, taken);
  const Covariance variance = covariance(deleted, value, deleted, value);
  if (std::isnan(variance.sum)) {
    result.low = result.high =
        Figure::none("too small a sample to bound: it is undefined without one of the patients");
    return result;
  }
  const Spread spread{variance.sum, variance.freedom, units_of(table, m, taken),
                      are_pairs(table, m, taken)};
  const Bounds bounds = bounds_of(table.metrics[m], value, spread, table.level);
  const Bounds claimed = bounds_of(table.metrics[m], value, spread, kClaimLevel);
  return {result.value, bounds.low, bounds.high, claimed.low.value, claimed.high.value};
}

// Steps of single patients make differences of recalls too coarse for fewer.
constexpr std::size_t kLeastOfRecalls = 10;

bool is_too_coarse(const MetricTable& table, std::size_t m, Taken taken) {
  const Metric metric = table.metrics[m];
  return (metric == Metric::kSensitivity || metric == Metric::kSpecificity) &&
         units_of(table, m, taken) < kLeastOfRecalls;
}

double squared(double x) {
  return x * x;
}

// Zou and Donner 2008, with the correlation that leaving out patients shows.
Estimate difference_of(const MetricTable& a, const MetricTable& b, std::size_t m, Taken taken) {
  const Estimate first = estimate_of(a, m, taken), second = estimate_of(b, m, taken);
  Estimate result{mean_figure(minus(figures_of(a, m, taken), figures_of(b, m, taken))), {}, {}};
  result.low = result.high = result.value;
  if (!result.value.defined()) return result;
  result.low = result.high = first.low.defined() ? second.low : first.low;
  if (is_too_coarse(a, m, taken)) {
    result.low = result.high =
        Figure::none(concat("too small a sample to bound: ", units_of(a, m, taken), " patients, ",
                            kLeastOfRecalls, " needed"));
  }
  if (!result.low.defined()) return result;
  const double x = first.value.value, y = second.value.value, d = result.value.value;
  const Deleted dx = deleted_values(a, m, taken), dy = deleted_values(b, m, taken);
  const double vx = covariance(dx, x, dx, x).sum, vy = covariance(dy, y, dy, y).sum;
  const double both = vx > 0 && vy > 0 ? covariance(dx, x, dy, y).sum / std::sqrt(vx * vy) : 0;
  const double r = std::clamp(both, -1.0, 1.0);
  if (vx > 0 && dx.value == dy.value && x == y) {  // the same model, or one that ranks the same
    result.low = result.high = Figure::of(d);
    result.claim_low = result.claim_high = d;
    return result;
  }
  const auto reach = [&](double of_x, double of_y) {
    return std::sqrt(std::max(0.0, squared(of_x) - 2 * r * of_x * of_y + squared(of_y)));
  };
  result.low = Figure::of(d - reach(x - first.low.value, second.high.value - y));
  result.high = Figure::of(d + reach(first.high.value - x, y - second.low.value));
  result.claim_low = d - reach(x - first.claim_low, second.claim_high - y);
  result.claim_high = d + reach(first.claim_high - x, y - second.claim_low);
  return result;
}

Estimate not_over_folds() {
  const Figure none = Figure::none("taken from all folds together");
  return {none, none, none};
}

bool over_folds(const MetricTable& table, std::size_t m) {
  return is_mean_over_folds(table.metrics[m]);
}

// Both models of a difference have the same labels, and so the same folds.
bool most_folds_have_it(const MetricTable& table, std::size_t m) {
  const auto defined = std::ranges::count_if(table.per_fold[m], &Figure::defined);
  return over_folds(table, m) && defined > 0 &&
         2 * static_cast<std::size_t>(defined) >= table.per_fold[m].size();
}

}  // namespace

bool is_mean_over_folds(Metric metric) {
  return metric == Metric::kAuroc || metric == Metric::kAuprc;
}

std::vector<MetricSummary> summarize(const MetricTable& table) {
  std::vector<MetricSummary> result;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    MetricSummary& summary = result.emplace_back();
    summary.metric = table.metrics[m];
    summary.mean_over_folds =
        over_folds(table, m) ? estimate_of(table, m, Taken::kOverFolds) : not_over_folds();
    summary.pooled = estimate_of(table, m, Taken::kPooled);
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
        over_folds(a, m) ? difference_of(a, b, m, Taken::kOverFolds) : not_over_folds();
    difference.pooled = difference_of(a, b, m, Taken::kPooled);
    difference.by_fold = most_folds_have_it(a, m);
  }
  return result;
}

}  // namespace coldframe::temporal
