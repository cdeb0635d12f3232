// The metrics of predicted numbers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/numbers/quantile.h"
#include "train_temporal/metrics/metric_input.h"
#include "train_temporal/metrics/metric_table.h"

namespace coldframe::temporal {
namespace {

double mean(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

double squared_errors(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

bool all_equal(std::span<const double> x) {
  return std::ranges::adjacent_find(x, std::ranges::not_equal_to{}) == x.end();
}

}  // namespace

MetricValue r_squared(std::span<const double> truth, std::span<const double> predicted) {
  if (truth.size() < 2) return MetricValue::none("fewer than two exams");
  if (all_equal(truth)) return MetricValue::none("all true values are equal");
  const std::vector<double> middle(truth.size(), mean(truth));
  const double deviations = squared_errors(truth, middle);
  if (deviations == 0) return MetricValue::none("the true values do not differ but by rounding");
  return MetricValue::of(1 - squared_errors(truth, predicted) / deviations);
}

MetricValue mean_absolute_error(std::span<const double> truth, std::span<const double> predicted) {
  if (truth.empty()) return MetricValue::none("no exams");
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) sum += std::abs(truth[i] - predicted[i]);
  return MetricValue::of(sum / static_cast<double>(truth.size()));
}

MetricValue root_mean_squared_error(std::span<const double> truth,
                                    std::span<const double> predicted) {
  if (truth.empty()) return MetricValue::none("no exams");
  return MetricValue::of(
      std::sqrt(squared_errors(truth, predicted) / static_cast<double>(truth.size())));
}

MetricValue pearson(std::span<const double> x, std::span<const double> y) {
  if (x.size() < 2) return MetricValue::none("fewer than two exams");
  if (all_equal(x)) return MetricValue::none("all true values are equal");
  if (all_equal(y)) return MetricValue::none("all predictions are equal");
  const double x_mean = mean(x), y_mean = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - x_mean) * (y[i] - y_mean);
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    yy += (y[i] - y_mean) * (y[i] - y_mean);
  }
  if (xx == 0 || yy == 0) return MetricValue::none("the values do not differ but by rounding");
  return MetricValue::of(std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0));
}

MetricValue spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(midranks(x), midranks(y));
}

namespace {

template <MetricValue (*kStatistic)(std::span<const double>, std::span<const double>)>
MetricValue of_numbers(const MetricInput& in) {
  return kStatistic(in.exams.number, in.exams.predicted);
}

constexpr MetricRow kNumberMetrics[] = {
    {.key = "r2",  // 1 − squared errors / squared deviations from the mean
     .title = "R²",
     .labels = kNumberLabels,
     .compute = of_numbers<r_squared>,
     .shape = Shape::kBelowOne,
     .compared = true},
    {.key = "mae",
     .title = "MAE",
     .labels = kNumberLabels,
     .compute = of_numbers<mean_absolute_error>,
     .shape = Shape::kError,
     .compared = true},
    {.key = "rmse",
     .title = "RMSE",
     .labels = kNumberLabels,
     .compute = of_numbers<root_mean_squared_error>,
     .shape = Shape::kError},
    {.key = "pearson",
     .title = "Pearson",
     .labels = kNumberLabels,
     .compute = of_numbers<pearson>,
     .shape = Shape::kSigned},
    {.key = "spearman",  // equal ones share the mean of their ranks
     .title = "Spearman",
     .labels = kNumberLabels,
     .compute = of_numbers<spearman>,
     .shape = Shape::kSigned,
     .compared = true},
};

}  // namespace

std::span<const MetricRow> number_metrics() {
  return kNumberMetrics;
}

}  // namespace coldframe::temporal
