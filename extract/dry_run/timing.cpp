#include "extract/dry_run/timing.h"

#include <algorithm>
#include <vector>

namespace coldframe::dry_run {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

Timing describe_times(std::span<const double> times_s) {
  std::vector<double> known;
  std::copy_if(times_s.begin(), times_s.end(), std::back_inserter(known),
               [](double time) { return std::isfinite(time); });
  Timing timing;
  if (known.empty()) return timing;
  const auto [first, last] = std::minmax_element(known.begin(), known.end());
  timing.span_s = *last - *first;
  timing.kind = times_s.size() == 1 ? TimingKind::kSingle : TimingKind::kPartlyKnown;
  if (known.size() == 1) return timing;
  std::vector<double> intervals;
  for (std::size_t i = 1; i < known.size(); ++i) {
    intervals.push_back(known[i] - known[i - 1]);
    timing.duplicate += intervals.back() == 0;
    timing.decreasing += intervals.back() < 0;
  }
  timing.interval_s = median(intervals);
  if (known.size() < times_s.size()) return timing;
  const double tolerance = std::max(0.02 * std::abs(timing.interval_s), 0.0015);
  const bool constant = std::all_of(intervals.begin(), intervals.end(), [&](double interval) {
    return std::abs(interval - timing.interval_s) <= tolerance;
  });
  timing.kind = constant ? TimingKind::kConstant : TimingKind::kUneven;
  return timing;
}

}  // namespace coldframe::dry_run
