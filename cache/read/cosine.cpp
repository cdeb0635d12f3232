#include "cache/read/cosine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coldframe::cache {
namespace {

// Four sums, so that additions need not wait for each other.
double dot(std::span<const float> a, std::span<const float> b) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t d = 0;
  for (; d + 4 <= a.size(); d += 4)
    for (std::size_t k = 0; k < 4; ++k) sums[k] += static_cast<double>(a[d + k]) * b[d + k];
  for (; d < a.size(); ++d) sums[0] += static_cast<double>(a[d]) * b[d];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

std::vector<double> row_norms(std::span<const float> features, std::size_t dimension) {
  std::vector<double> norms;
  for (std::size_t at = 0; at < features.size(); at += dimension) {
    const auto row = features.subspan(at, dimension);
    norms.push_back(std::sqrt(dot(row, row)));
  }
  return norms;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  const double norms = std::sqrt(dot(a, a)) * std::sqrt(dot(b, b));
  return norms > 0 ? std::clamp(dot(a, b) / norms, -1.0, 1.0)
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace coldframe::cache
