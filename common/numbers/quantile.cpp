#include "common/numbers/quantile.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace coldframe {

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

std::vector<double> midranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> rank(values.size());
  for (std::size_t from = 0, to = 0; from < order.size(); from = to) {
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i) rank[order[i]] = static_cast<double>(from + to + 1) / 2;
  }
  return rank;
}

}  // namespace coldframe
