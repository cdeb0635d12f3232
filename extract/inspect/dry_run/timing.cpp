#include "extract/inspect/dry_run/timing.h"

#include <algorithm>
#include <vector>

#include "common/numbers/quantile.h"

namespace coldframe::extract::dry_run {
namespace {

// Frames at each time where all times have as many, else 1.
std::size_t frames_at_once(std::span<const double> times) {
  std::size_t common = 0;
  for (std::size_t begin = 0, end = 0; begin < times.size(); begin = end) {
    while (end < times.size() && times[end] == times[begin]) ++end;
    if (common != 0 && end - begin != common) return 1;
    common = end - begin;
  }
  return common;
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
  std::vector<double> steps;
  for (std::size_t i = 1; i < known.size(); ++i) {
    const double interval = known[i] - known[i - 1];
    timing.duplicate += interval == 0;
    timing.decreasing += interval < 0;
    if (interval != 0) steps.push_back(interval);
  }
  if (!steps.empty()) timing.interval_s = median(steps);
  timing.kind = TimingKind::kPartlyKnown;
  if (known.size() < times_s.size()) return timing;
  timing.at_once = frames_at_once(known);
  timing.kind = TimingKind::kSingle;
  if (steps.empty()) return timing;
  const double tolerance = std::max(0.02 * std::abs(timing.interval_s), 0.0015);
  const bool constant = std::all_of(steps.begin(), steps.end(), [&](double step) {
    return std::abs(step - timing.interval_s) <= tolerance;
  });
  const bool regular = timing.at_once > 1 || timing.duplicate == 0;
  timing.kind = constant && regular ? TimingKind::kConstant : TimingKind::kUneven;
  return timing;
}

}  // namespace coldframe::extract::dry_run
