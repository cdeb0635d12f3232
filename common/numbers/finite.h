// Which numbers can be computed with.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace coldframe {

// Training computes in float32, and squares what it learns from: losses and deviations.
inline constexpr double kMostLearnt = 1e18;
inline bool is_learnable(double value) {
  return std::abs(value) <= kMostLearnt;
}

// Those of the numbers that are finite, in their order.
inline std::vector<double> finite_values(const std::vector<double>& values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  return finite;
}

}  // namespace coldframe
