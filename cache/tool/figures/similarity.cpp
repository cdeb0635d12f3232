#include "cache/tool/figures/similarity.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coldframe::cache::tool {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::vector<double> cosine_to_previous(std::span<const float> features, std::size_t dimension) {
  std::vector<double> cosines;
  std::span<const float> before;
  for (std::size_t at = 0; at < features.size(); at += dimension) {
    const auto row = features.subspan(at, dimension);
    const bool present = !std::isnan(row[0]);
    cosines.push_back(present && !before.empty() ? cosine(before, row) : kNaN);
    if (present) before = row;
  }
  return cosines;
}

std::vector<float> mean_row(std::span<const float> features, std::size_t dimension) {
  std::vector<double> sums(dimension);
  std::size_t rows = 0;
  for (std::size_t at = 0; at < features.size(); at += dimension) {
    if (std::isnan(features[at])) continue;
    for (std::size_t d = 0; d < dimension; ++d) sums[d] += features[at + d];
    ++rows;
  }
  std::vector<float> mean(dimension);
  for (std::size_t d = 0; d < dimension; ++d)
    mean[d] = static_cast<float>(sums[d] / static_cast<double>(rows));
  return mean;
}

std::string sparkline(const std::vector<double>& values) {
  double low = 0, high = 0;
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = any ? std::min(low, value) : value;
    high = any ? std::max(high, value) : value;
    any = true;
  }
  static const char* const kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const double value : values) {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    line += std::isfinite(value) ? kLevels[static_cast<int>(std::lround(share * 7))] : " ";
  }
  return line;
}

}  // namespace coldframe::cache::tool
