#include "cache/tool/statistics.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cache/tool/exams.h"
#include "common/files/fingerprint.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

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

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const RowMajor> as_eigen(const Matrix& matrix) {
  return {matrix.values.data(), static_cast<Eigen::Index>(matrix.rows),
          static_cast<Eigen::Index>(matrix.columns)};
}

Matrix from_eigen(const RowMajor& values) {
  return {static_cast<std::size_t>(values.rows()),
          static_cast<std::size_t>(values.cols()),
          {values.data(), values.data() + values.size()}};
}

constexpr int kSpareAxes = 8, kIterations = 24;

}  // namespace

std::vector<float> centre(Matrix& matrix) {
  std::vector<double> sums(matrix.columns);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t d = 0; d < matrix.columns; ++d) sums[d] += matrix.row(i)[d];
  std::vector<float> mean(matrix.columns);
  for (std::size_t d = 0; d < matrix.columns; ++d)
    mean[d] =
        static_cast<float>(sums[d] / static_cast<double>(std::max<std::size_t>(1, matrix.rows)));
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t d = 0; d < matrix.columns; ++d)
      matrix.values[i * matrix.columns + d] -= mean[d];
  return mean;
}

double effective_rank(const Matrix& matrix) {
  if (matrix.values.empty()) return 0;
  const Eigen::MatrixXd values = as_eigen(matrix).cast<double>();
  const bool wide = values.cols() > values.rows();
  const Eigen::Index size = std::min(values.rows(), values.cols());
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(size, size);
  if (wide)
    gram.selfadjointView<Eigen::Lower>().rankUpdate(values);
  else
    gram.selfadjointView<Eigen::Lower>().rankUpdate(values.transpose());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
  const Eigen::ArrayXd singular = solver.eigenvalues().array().max(0).sqrt();
  const double sum = singular.sum();
  if (!(sum > 0)) return 0;
  double entropy = 0;
  for (const double value : singular)
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  return std::exp(entropy);
}

PrincipalAxes principal_axes(const Matrix& centred, std::size_t k) {
  const auto values = as_eigen(centred);
  const Eigen::Index wanted =
      std::min({static_cast<Eigen::Index>(k), values.rows(), values.cols()});
  const Eigen::Index width = std::min({wanted + kSpareAxes, values.rows(), values.cols()});
  if (wanted == 0) return {};
  // A fixed start that no structure of the data is orthogonal to, in practice.
  RowMajor basis(values.cols(), width);
  for (Eigen::Index i = 0; i < basis.size(); ++i)
    basis.data()[i] = static_cast<float>(std::sin(1.0 + 12.9898 * static_cast<double>(i)));
  RowMajor projected;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const Eigen::HouseholderQR<RowMajor> factors(basis);
    basis = factors.householderQ() * RowMajor::Identity(values.cols(), width);
    projected.noalias() = values * basis;
    if (iteration + 1 < kIterations) basis.noalias() = values.transpose() * projected;
  }
  const Eigen::MatrixXd small = (projected.transpose() * projected).cast<double>();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(small);
  const double all = values.cast<double>().squaredNorm();
  PrincipalAxes result;
  RowMajor axes(wanted, values.cols());
  for (Eigen::Index i = 0; i < wanted; ++i) {
    const Eigen::Index from = width - 1 - i;  // eigenvalues rise
    Eigen::VectorXf axis = basis * solver.eigenvectors().col(from).cast<float>();
    Eigen::Index largest = 0;
    axis.cwiseAbs().maxCoeff(&largest);
    if (axis[largest] < 0) axis = -axis;
    axes.row(i) = axis.transpose();
    result.variance_share.push_back(all > 0 ? std::max(0.0, solver.eigenvalues()[from]) / all : 0);
  }
  result.axes = from_eigen(axes);
  return result;
}

Matrix products(const Matrix& a, const Matrix& b) {
  return from_eigen(as_eigen(a) * as_eigen(b).transpose());
}

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
  rows.rows <= kMaxExhaustive ? compare_all(rows, visit) : compare_along_axes(rows, visit);
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
  constexpr double kMaxLength = 4;  // times the median
  std::vector<double> lengths, sums(rows.columns);
  for (std::size_t i = 0; i < rows.rows; ++i)
    lengths.push_back(std::sqrt(dot(rows.row(i), rows.row(i))));
  if (lengths.empty()) return;
  const double most = kMaxLength * median(lengths);
  for (std::size_t i = 0; i < rows.rows; ++i)
    for (std::size_t d = 0; d < rows.columns; ++d)
      sums[d] += rows.row(i)[d] * (lengths[i] > most ? most / lengths[i] : 1);
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    rows.values[i] -= static_cast<float>(sums[i % rows.columns] / static_cast<double>(rows.rows));
}

}  // namespace

ExamMeansBuilder::ExamMeansBuilder(std::size_t count, std::size_t dimension)
    : wanted_(evenly_spaced(count, std::max<std::size_t>(2, kMaxMeanValues / dimension))) {
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

namespace {

constexpr std::size_t kMaxDimensionsNamed = 20, kMaxGroups = 100, kMaxPairsNamed = 20;

const Fractions kNormQuantiles = {{"min", 0},    {"p1", 0.01},  {"p25", 0.25}, {"median", 0.5},
                                  {"p75", 0.75}, {"p99", 0.99}, {"max", 1}};

}  // namespace

FeatureStatistics::FeatureStatistics(std::size_t exams, std::size_t frames, std::size_t dimension)
    : dimension_(dimension),
      lowest_(dimension, std::numeric_limits<float>::infinity()),
      highest_(dimension, -std::numeric_limits<float>::infinity()),
      sum_(dimension),
      squares_(dimension),
      sampled_(evenly_spaced(frames, kMaxSampledFrames)),
      sample_{0, dimension, {}},
      means_(exams, dimension) {
  norms_.reserve(frames);
  row_hashes_.reserve(frames);
}

void FeatureStatistics::add_row(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  const bool sampled = next_sample_ < sampled_.size() && sampled_[next_sample_] == rows_ - 1;
  if (sampled) ++next_sample_;
  if (!std::isfinite(squares)) {
    ++nan_;
    return;
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    lowest_[d] = std::min(lowest_[d], row[d]);
    highest_[d] = std::max(highest_[d], row[d]);
    sum_[d] += row[d];
    squares_[d] += static_cast<double>(row[d]) * row[d];
  }
  norms_.push_back(std::sqrt(squares));
  if (squares == 0) ++zero_;
  row_hashes_.push_back(xxh3_64(std::as_bytes(row)));
  if (sampled) sample_.add_row(row);
}

void FeatureStatistics::add(const ExamInfo& exam, std::size_t index,
                            std::span<const float> features) {
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    ++rows_;
    if (exam.present[t] != 0) {
      add_row(features.subspan(t * dimension_, dimension_));
      continue;
    }
    ++missing_;
    if (next_sample_ < sampled_.size() && sampled_[next_sample_] == rows_ - 1) ++next_sample_;
  }
  exam_hashes_.emplace_back(xxh3_64(std::as_bytes(features)), index);
  means_.add(exams_++, index, features);
}

// The spread is that of all values, and of the standard deviations of the dimensions.
Json FeatureStatistics::spread() const {
  if (norms_.empty()) return nullptr;
  const auto rows = static_cast<double>(norms_.size());
  double sum = 0, squares = 0;
  std::vector<double> deviations;
  for (std::size_t d = 0; d < dimension_; ++d) {
    sum += sum_[d];
    squares += squares_[d];
    const double mean = sum_[d] / rows;
    deviations.push_back(std::sqrt(std::max(0.0, squares_[d] / rows - mean * mean)));
  }
  const double count = rows * static_cast<double>(dimension_), mean = sum / count;
  Json json = Json::object();
  json["min"] = *std::min_element(lowest_.begin(), lowest_.end());
  json["max"] = *std::max_element(highest_.begin(), highest_.end());
  json["mean"] = mean;
  json["deviation"] = std::sqrt(std::max(0.0, squares / count - mean * mean));
  json["deviation_of_dimensions"] = quantiles(deviations, kNormQuantiles);
  return json;
}

Json FeatureStatistics::identical_exams(const CacheReader& cache) {
  std::sort(exam_hashes_.begin(), exam_hashes_.end());
  Json groups = Json::array();
  for (std::size_t first = 0, end = 0; first < exam_hashes_.size(); first = end) {
    while (end < exam_hashes_.size() && exam_hashes_[end].first == exam_hashes_[first].first) ++end;
    if (end - first < 2 || groups.size() >= kMaxGroups) continue;
    Json ids = Json::array();
    for (std::size_t i = first; i < end; ++i)
      ids.push_back(cache.exams()[exam_hashes_[i].second].id);
    groups.push_back(std::move(ids));
  }
  return groups;
}

Json FeatureStatistics::near_duplicates(const CacheReader& cache, NearestRows* nearest) {
  exam_means_ = means_.finish();
  const ExamMeans& means = exam_means_;
  std::size_t found = 0;
  const std::vector<Pair> pairs =
      similar_pairs(cache, means, kNearDuplicate, kMaxPairsNamed, found, nearest);
  Json json = Json::object();
  json["cosine_at_least"] = kNearDuplicate;
  json["exams_compared"] = means.exams.size();
  json["all_pairs"] = means.exams.size() <= kMaxExhaustive;
  json["pairs"] = found;
  json["closest"] = Json::array();
  for (const Pair& pair : pairs) {
    const ExamInfo &a = cache.exams()[means.exams[pair.a]], &b = cache.exams()[means.exams[pair.b]];
    json["closest"].push_back(Json{
        {"exams", {a.id, b.id}}, {"patients", {a.patient, b.patient}}, {"cosine", pair.cosine}});
  }
  return json;
}

Json FeatureStatistics::finish(const CacheReader& cache, NearestRows* nearest) {
  std::sort(row_hashes_.begin(), row_hashes_.end());
  const auto distinct = std::unique(row_hashes_.begin(), row_hashes_.end()) - row_hashes_.begin();
  Json dead = Json::array();
  std::size_t dead_count = 0;
  for (std::size_t d = 0; d < dimension_; ++d) {
    if (lowest_[d] != highest_[d]) continue;
    ++dead_count;
    if (dead.size() < kMaxDimensionsNamed) dead.push_back(d);
  }
  Json json = Json::object();
  json["rows"] = rows_;
  json["missing_rows"] = missing_;
  json["nan_rows"] = nan_;
  json["zero_rows"] = zero_;
  json["duplicate_rows"] = row_hashes_.size() - static_cast<std::size_t>(distinct);
  json["norm"] = quantiles(norms_, kNormQuantiles);
  json["values"] = spread();
  json["dead_dimensions"] = dead_count;
  json["first_dead_dimensions"] = dead;
  json["sampled_rows"] = sample_.rows;
  centre(sample_);
  json["effective_rank"] = effective_rank(sample_);
  json["identical_exams"] = identical_exams(cache);
  json["near_duplicates"] = near_duplicates(cache, nearest);
  return json;
}

FeatureStatistics gather_statistics(const CacheReader& cache, const std::string& view,
                                    std::span<const std::size_t> exams,
                                    const CacheReader::Visit& also) {
  std::size_t frames = 0;
  for (const std::size_t exam : exams) frames += cache.exams()[exam].frames();
  FeatureStatistics statistics(exams.size(), frames, static_cast<std::size_t>(cache.dimension()));
  cache.scan(view, exams, [&](std::size_t exam, std::span<const float> features) {
    statistics.add(cache.exams()[exam], exam, features);
    if (also) also(exam, features);
  });
  return statistics;
}

std::string compared_exams(const Json& near_duplicates) {
  return concat(
      near_duplicates["exams_compared"].dump(), " exams, ",
      near_duplicates["all_pairs"] == true
          ? "all pairs"
          : concat("each with the ", kWindow, " next along ", kSortedAxes, " principal axes"));
}

}  // namespace coldframe::cache::tool
