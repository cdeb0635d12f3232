#include "train_temporal/metrics/curves.h"

#include <algorithm>
#include <cmath>

namespace coldframe::temporal {

std::vector<double> roc_at(const Curve& curve, const std::vector<double>& grid) {
  std::vector<double> y;
  for (double x : grid) {
    const auto above = std::ranges::upper_bound(curve.x, x) - curve.x.begin();
    const auto i = static_cast<std::size_t>(above);  // the first point right of x
    if (i == curve.x.size()) {
      y.push_back(curve.y.back());
      continue;
    }
    const double part = (x - curve.x[i - 1]) / (curve.x[i] - curve.x[i - 1]);
    y.push_back(curve.y[i - 1] + part * (curve.y[i] - curve.y[i - 1]));
  }
  return y;
}

std::vector<double> precision_at(const Curve& curve, const std::vector<double>& grid) {
  std::vector<double> y;
  for (double recall : grid) {
    // The first point with a threshold: recall 0 would else take the artificial one at (0, 1).
    const auto found = std::lower_bound(curve.x.begin() + 1, curve.x.end(), recall - 1e-12);
    const auto i = static_cast<std::size_t>(found - curve.x.begin());
    y.push_back(curve.y[std::min(i, curve.y.size() - 1)]);
  }
  return y;
}

Averages average(const std::vector<std::vector<double>>& curves) {
  Averages result;
  std::size_t longest = 0;
  for (const auto& curve : curves) longest = std::max(longest, curve.size());
  for (std::size_t i = 0; i < longest; ++i) {
    double sum = 0, n = 0, least = INFINITY, most = -INFINITY;
    for (const auto& curve : curves) {
      if (i >= curve.size() || !std::isfinite(curve[i])) continue;
      sum += curve[i];
      least = std::min(least, curve[i]);
      most = std::max(most, curve[i]);
      n += 1;
    }
    result.mean.push_back(n > 0 ? sum / n : NAN);
    result.low.push_back(least);
    result.high.push_back(most);
  }
  return result;
}

}  // namespace coldframe::temporal
