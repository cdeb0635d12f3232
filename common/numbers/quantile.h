// Order statistics.
#pragma once

#include <vector>

namespace coldframe {

// Linear interpolation between neighbours, as numpy.quantile has it. There is at least one value.
double quantile(const std::vector<double>& sorted, double q);
double median(std::vector<double> values);

}  // namespace coldframe
