#include "train_temporal/metrics/intervals/groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/text.h"

namespace coldframe::temporal {

void widen_by_groups(Estimate& estimate, const std::vector<MetricValue>& figures, double level,
                     const MetricRange& range) {
  // Two say nothing of how groups differ: Student's distribution has one degree of freedom.
  constexpr std::size_t kLeastGroups = 3;
  std::vector<double> of_group;
  for (const MetricValue& figure : figures)
    if (figure.defined()) of_group.push_back(figure.value);
  if (!estimate.value.defined() || !estimate.low.defined()) return;
  const auto n = static_cast<double>(of_group.size());
  if (of_group.size() < kLeastGroups) {
    estimate.low = estimate.high = MetricValue::none(
        concat(plural(of_group.size(), "group"), " do not show how groups differ"));
    estimate.claim_low = estimate.claim_high = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  double mean = 0, squares = 0;
  for (const double value : of_group) mean += value / n;
  for (const double value : of_group) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (n - 1) / n), value = estimate.value.value;
  const auto reach = [&](double of) { return error * student_quantile((1 + of) / 2, n - 1); };
  const auto below = [&](double bound, double of) {
    return std::max(std::min(bound, value - reach(of)), range.low);
  };
  const auto above = [&](double bound, double of) {
    return std::min(std::max(bound, value + reach(of)), range.high);
  };
  estimate.low = MetricValue::of(below(estimate.low.value, level));
  estimate.high = MetricValue::of(above(estimate.high.value, level));
  estimate.claim_low = below(estimate.claim_low, kClaimLevel);
  estimate.claim_high = above(estimate.claim_high, kClaimLevel);
}

}  // namespace coldframe::temporal
