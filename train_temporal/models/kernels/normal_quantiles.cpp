#include <array>
#include <boost/math/distributions/normal.hpp>

#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

std::array<float, kQuantiles> compute_quantiles() {
  std::array<float, kQuantiles> result{};
  const boost::math::normal normal;
  for (std::size_t i = kQuantiles / 2; i < kQuantiles; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    result[i] = static_cast<float>(quantile(complement(normal, 1 - below)));
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
