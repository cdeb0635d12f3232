// The logistic function and its integral, for any size of number.
#pragma once

#include <algorithm>
#include <cmath>

namespace coldframe::temporal {

inline double logistic(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// log(1 + exp(x))
inline double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace coldframe::temporal
