// Finite numbers and their quantiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

namespace coldframe {

// Which numbers can be computed with.

// Training computes in float32, and squares what it learns from: losses and deviations.
inline constexpr double kMaxLearnt = 1e18;
inline bool is_learnable(double value) {
  return std::abs(value) <= kMaxLearnt;
}

// Those of the numbers that are finite, in their order.
inline std::vector<double> finite_values(const std::vector<double>& values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  return finite;
}

// Order statistics.

// Linear interpolation between neighbours, as numpy.quantile has it. There is at least one value.
double quantile(const std::vector<double>& sorted, double q);
double median(std::vector<double> values);
// From 1 on; equal values share the mean of their ranks.
std::vector<double> midranks(std::span<const double> values);

}  // namespace coldframe
