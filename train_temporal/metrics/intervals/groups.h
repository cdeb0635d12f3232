// A figure of new groups, such as sites, owes more to chance than patients show, since groups
// differ.
#pragma once

#include <vector>

#include "train_temporal/metrics/intervals/bounds.h"
#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {

// The interval becomes that of a mean of groups, by Student's distribution, where this is wider.
// `figures`: of each group; the range is that of the figure.
void widen_by_groups(Estimate& estimate, const std::vector<MetricValue>& figures, double level,
                     const MetricRange& range);

}  // namespace coldframe::temporal
