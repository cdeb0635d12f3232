// Lists in which NaN stands for no number.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace coldframe {

// Those of the numbers that are finite, in their order.
inline std::vector<double> finite_values(const std::vector<double>& values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  return finite;
}

}  // namespace coldframe
