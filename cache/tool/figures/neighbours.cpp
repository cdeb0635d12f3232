#include "cache/tool/figures/neighbours.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/similarity.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kBlock = 512;     // rows per product of matrices
constexpr std::size_t kSampled = 4096;  // rows that the axes are of

float dot(std::span<const float> a, std::span<const float> b) {
  float sums[8] = {};
  std::size_t d = 0;
  for (; d + 8 <= a.size(); d += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[d + k] * b[d + k];
  for (; d < a.size(); ++d) sums[0] += a[d] * b[d];
  return std::accumulate(std::begin(sums), std::end(sums), 0.0f);
}

Matrix block_of(const Matrix& matrix, std::size_t first, std::size_t count) {
  const auto from = matrix.values.begin() + static_cast<std::ptrdiff_t>(first * matrix.columns);
  return {
      count, matrix.columns, {from, from + static_cast<std::ptrdiff_t>(count * matrix.columns)}};
}

// Gathers pairs, keeping the best `most`.
class BestPairs {
 public:
  BestPairs(const CacheReader& cache, const ExamMeans& means, double least)
      : cache_(cache), means_(means), least_(least) {}
  void consider(std::size_t a, std::size_t b, double cosine) {
    if (cosine < least_) return;
    const std::string &first = patient(a), &second = patient(b);
    if (!first.empty() && spelt_alike(first, second)) return;
    pairs_.push_back({std::min(a, b), std::max(a, b), std::min(cosine, 1.0)});
  }
  std::vector<Pair> finish(std::size_t most, std::size_t& found) {
    const auto key = [](const Pair& pair) { return std::pair(pair.a, pair.b); };
    std::sort(pairs_.begin(), pairs_.end(),
              [&](const Pair& x, const Pair& y) { return key(x) < key(y); });
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end(),
                             [&](const Pair& x, const Pair& y) { return key(x) == key(y); }),
                 pairs_.end());
    found = pairs_.size();
    std::stable_sort(pairs_.begin(), pairs_.end(),
                     [](const Pair& x, const Pair& y) { return x.cosine > y.cosine; });
    pairs_.resize(std::min(most, pairs_.size()));
    return std::move(pairs_);
  }

 private:
  const std::string& patient(std::size_t row) const {
    return cache_.exams()[means_.exams[row]].patient;
  }
  const CacheReader& cache_;
  const ExamMeans& means_;
  double least_;
  std::vector<Pair> pairs_;
};

// visit(a, b, cosine) for every pair of rows.
template <typename Visit>
void compare_all(const Matrix& rows, const Visit& visit) {
  for (std::size_t i = 0; i < rows.rows; i += kBlock) {
    const Matrix left = block_of(rows, i, std::min(kBlock, rows.rows - i));
    for (std::size_t j = i; j < rows.rows; j += kBlock) {
      const Matrix cosines = products(left, block_of(rows, j, std::min(kBlock, rows.rows - j)));
      for (std::size_t a = 0; a < cosines.rows; ++a)
        for (std::size_t b = 0; b < cosines.columns; ++b)
          if (i + a < j + b) visit(i + a, j + b, cosines.row(a)[b]);
    }
  }
}

// The same for pairs that lie together along an axis, some of them several times.
template <typename Visit>
void compare_along_axes(const Matrix& rows, const Visit& visit) {
  Matrix sample{0, rows.columns, {}};
  for (const std::size_t i : evenly_spaced(rows.rows, kSampled)) sample.add_row(rows.row(i));
  const Matrix along = products(principal_axes(sample, kSortedAxes).axes, rows);  // [axes, N]
  std::vector<std::size_t> order(rows.rows);
  for (std::size_t axis = 0; axis < along.rows; ++axis) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto position = along.row(axis);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return position[a] < position[b]; });
    for (std::size_t i = 0; i < order.size(); ++i)
      for (std::size_t j = i + 1; j < std::min(order.size(), i + 1 + kWindow); ++j)
        visit(order[i], order[j], dot(rows.row(order[i]), rows.row(order[j])));
  }
}

template <typename Visit>
void compare_pairs(const Matrix& rows, const Visit& visit) {
  rows.rows <= kMostExhaustive ? compare_all(rows, visit) : compare_along_axes(rows, visit);
}

// Keeps the best, the nearest first.
void keep_nearest(std::vector<Neighbour>& nearest, Neighbour found) {
  if (nearest.size() == kNeighbours && found.cosine <= nearest.back().cosine) return;
  for (const Neighbour& each : nearest)
    if (each.row == found.row) return;
  const auto nearer = [](const Neighbour& a, const Neighbour& b) { return a.cosine > b.cosine; };
  nearest.insert(std::upper_bound(nearest.begin(), nearest.end(), found, nearer), found);
  if (nearest.size() > kNeighbours) nearest.pop_back();
}

// Subtracts the rows' mean. Longer rows count with a few times the median length: one exam of
// enormous features would move the mean, and all others would look alike.
void centre_robustly(Matrix& rows) {
  constexpr double kMostLength = 4;  // times the median
  std::vector<double> lengths, sums(rows.columns);
  for (std::size_t i = 0; i < rows.rows; ++i)
    lengths.push_back(std::sqrt(dot(rows.row(i), rows.row(i))));
  if (lengths.empty()) return;
  const double most = kMostLength * median(lengths);
  for (std::size_t i = 0; i < rows.rows; ++i)
    for (std::size_t d = 0; d < rows.columns; ++d)
      sums[d] += rows.row(i)[d] * (lengths[i] > most ? most / lengths[i] : 1);
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    rows.values[i] -= static_cast<float>(sums[i % rows.columns] / static_cast<double>(rows.rows));
}

}  // namespace

ExamMeansBuilder::ExamMeansBuilder(std::size_t count, std::size_t dimension)
    : wanted_(evenly_spaced(count, std::max<std::size_t>(2, kMostMeanValues / dimension))) {
  means_.rows.columns = dimension;
  means_.rows.values.reserve(wanted_.size() * dimension);
  means_.of = count;
}

void ExamMeansBuilder::add(std::size_t number, std::size_t exam, std::span<const float> features) {
  if (next_ >= wanted_.size() || wanted_[next_] != number) return;
  ++next_;
  const std::vector<float> mean = mean_row(features, means_.rows.columns);
  if (!std::isfinite(std::accumulate(mean.begin(), mean.end(), 0.0))) return;
  means_.exams.push_back(exam);
  means_.rows.add_row(mean);
}

ExamMeans ExamMeansBuilder::finish() {
  Matrix& rows = means_.rows;
  centre_robustly(rows);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const float length = std::sqrt(dot(rows.row(i), rows.row(i)));
    means_.lengths.push_back(length);
    for (std::size_t d = 0; length > 0 && d < rows.columns; ++d)
      rows.values[i * rows.columns + d] /= length;
  }
  return std::move(means_);
}

std::vector<Pair> similar_pairs(const CacheReader& cache, const ExamMeans& means, double least,
                                std::size_t most, std::size_t& found, NearestRows* nearest) {
  BestPairs best(cache, means, least);
  if (nearest != nullptr) nearest->resize(means.rows.rows);
  compare_pairs(means.rows, [&](std::size_t a, std::size_t b, float cosine) {
    best.consider(a, b, cosine);
    if (nearest == nullptr) return;
    const float value = std::min(1.0f, cosine);
    keep_nearest((*nearest)[a], {static_cast<std::uint32_t>(b), value});
    keep_nearest((*nearest)[b], {static_cast<std::uint32_t>(a), value});
  });
  return best.finish(most, found);
}

std::vector<Pair> nearest_rows(const ExamMeans& means, std::size_t from, std::size_t most) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < means.rows.rows; ++i)
    if (i != from)
      pairs.push_back({from, i, std::min(1.0f, dot(means.rows.row(from), means.rows.row(i)))});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.cosine > y.cosine; });
  pairs.resize(std::min(most, pairs.size()));
  return pairs;
}

}  // namespace coldframe::cache::tool
