// Order statistics.
#pragma once

#include <span>
#include <vector>

namespace coldframe {

// Linear interpolation between neighbours, as numpy.quantile has it. There is at least one value.
double quantile(const std::vector<double>& sorted, double q);
double median(std::vector<double> values);
// From 1 on; equal values share the mean of their ranks.
std::vector<double> midranks(std::span<const double> values);

}  // namespace coldframe
