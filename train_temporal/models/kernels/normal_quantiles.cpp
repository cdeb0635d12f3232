#include <array>
#include <cmath>
#include <numbers>

#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

// Solves P(Z > z) = tail for z ≥ 0 by Newton's method; tail ≤ 1/2.
double upper_quantile(double tail, double start) {
  double z = start;
  for (int i = 0; i < 8; ++i) {
    const double error = 0.5 * std::erfc(z / std::numbers::sqrt2) - tail;
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi);
    z += error / density;
  }
  return z;
}

std::array<float, kQuantiles> compute_quantiles() {
  std::array<float, kQuantiles> result{};
  double z = 0;
  for (std::size_t i = kQuantiles / 2; i < kQuantiles; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    z = upper_quantile(1 - below, z);
    result[i] = static_cast<float>(z);
    result[kQuantiles - 1 - i] = -result[i];
  }
  return result;
}

}  // namespace

const float* normal_quantiles() {
  static const std::array<float, kQuantiles> quantiles = compute_quantiles();
  return quantiles.data();
}

}  // namespace coldframe::temporal
