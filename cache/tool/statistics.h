// Cosine similarity of feature vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cache/store/reader.h"
#include "cache/tool/command.h"

namespace coldframe::cache {

// The cosine between two rows; NaN if one is missing (NaN) or zero.
double cosine(std::span<const float> a, std::span<const float> b);

// [T] Euclidean norms of the rows of `features`, [T, dimension]; NaN for missing frames.
std::vector<double> row_norms(std::span<const float> features, std::size_t dimension);

}  // namespace coldframe::cache

// Shows how the frames of one exam resemble each other.

namespace coldframe::cache::tool {

// Rows of `features` are the frames, [T, dimension]; a missing frame is a row of NaN.

// [T] cosine of each frame with the one before it that is present; NaN for the first frame and for
// missing ones.
std::vector<double> cosine_to_previous(std::span<const float> features, std::size_t dimension);

// [D] mean of the present rows; NaN if there are none.
std::vector<float> mean_row(std::span<const float> features, std::size_t dimension);

// One character out of ▁▂▃▄▅▆▇█ per value, the lowest of the finite ones first; a space for others.
std::string sparkline(const std::vector<double>& values);

// Reads the singular values of a matrix of features.

// Row-major [rows, columns].
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;

  std::span<const float> row(std::size_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }
  void add_row(std::span<const float> row) {
    values.insert(values.end(), row.begin(), row.end());
    ++rows;
  }
};

// Subtracts the mean of the rows from each row; returns the mean.
std::vector<float> centre(Matrix& matrix);

// Effective rank (Roy & Vetterli, "The effective rank: a measure of effective dimensionality",
// EUSIPCO 2007): exp(−Σ pᵢ ln pᵢ) with pᵢ = σᵢ / Σ σ over the singular values of `matrix`, from the
// eigenvalues of its smaller Gram matrix in double precision. 0 for a matrix of zeros.
double effective_rank(const Matrix& matrix);

struct PrincipalAxes {
  Matrix axes;                         // [k, columns], orthonormal, the strongest first
  std::vector<double> variance_share;  // [k] of the variance of all columns
};
// The `k` leading right singular vectors of a centred matrix by subspace iteration (Halko,
// Martinsson & Tropp 2011, algorithm 4.4, with a fixed start), each with its largest entry
// positive. Fewer if the matrix has fewer rows or columns.
PrincipalAxes principal_axes(const Matrix& centred, std::size_t k);

// [rows of a, rows of b] of dot products.
Matrix products(const Matrix& a, const Matrix& b);

// Exams that resemble each other, by the cosine of their mean features.

// The mean features of exams over their present frames, after subtracting the mean of all these
// means and scaling each row to length 1, so that dot products are cosines. (Without the first
// step nearly all exams have a cosine near 1, since features share a large mean.)
struct ExamMeans {
  std::vector<std::size_t>
      exams;    // [N] indices into the cache; exams without a present frame are left out
  Matrix rows;  // [N, D]
  std::vector<float> lengths;  // [N] of the rows before they were scaled
  std::size_t of = 0;          // how many exams there are to choose from
};

// Collects the means while somebody goes through the cache.
class ExamMeansBuilder {
 public:
  // At most kMaxMeanValues / D exams are taken, evenly spaced over `count`.
  ExamMeansBuilder(std::size_t count, std::size_t dimension);
  // `number`: index in [0, count), increasing from call to call; `exam`: index in the cache.
  void add(std::size_t number, std::size_t exam, std::span<const float> features);
  ExamMeans finish();
  static constexpr std::size_t kMaxMeanValues = 64u << 20;  // 256 MiB

 private:
  std::vector<std::size_t> wanted_;
  std::size_t next_ = 0;
  ExamMeans means_;
};

struct Pair {
  std::size_t a = 0, b = 0;  // indices into ExamMeans::exams, a < b
  double cosine = 0;
};

// All pairs are compared up to kMaxExhaustive exams. Above that, exams are sorted along each of 16
// principal axes and each is compared with the next kWindow (the sorted neighbourhood of
// Hernández & Stolfo 1995), which finds near-duplicates, since they lie together along every axis.
inline constexpr std::size_t kMaxExhaustive = 16384, kWindow = 24, kSortedAxes = 16;

// For each row those nearest to it that are found among these pairs, the nearest first, at most
// kNeighbours.
struct Neighbour {
  std::uint32_t row;  // of ExamMeans
  float cosine;
};
using NearestRows = std::vector<std::vector<Neighbour>>;
inline constexpr std::size_t kNeighbours = 10;

// Pairs with a cosine of at least `least` that are not of one known patient, the most similar
// first; at most `most`. `found` counts all of them. `nearest`, unless null, is filled too.
std::vector<Pair> similar_pairs(const CacheReader& cache, const ExamMeans& means, double least,
                                std::size_t most, std::size_t& found,
                                NearestRows* nearest = nullptr);

// The `most` rows that are nearest to row `from`, the nearest first.
std::vector<Pair> nearest_rows(const ExamMeans& means, std::size_t from, std::size_t most);

// Figures of the features of one view, gathered exam by exam so that few exams are in memory.

class FeatureStatistics {
 public:
  // The statistics will see `exams` exams with `frames` frames together.
  FeatureStatistics(std::size_t exams, std::size_t frames, std::size_t dimension);
  void add(const ExamInfo& exam, std::size_t index, std::span<const float> features);
  // Everything that `stats --json` prints of a view. Call once. `nearest`, unless null, is filled.
  Json finish(const CacheReader& cache, NearestRows* nearest = nullptr);

  // The frames that the effective rank is computed of: at most this many, evenly spaced over all
  // slots.
  static constexpr std::size_t kMaxSampledFrames = 8192;
  // Exams of different patients are near-duplicates when the cosine of their mean features is at
  // least this.
  static constexpr double kNearDuplicate = 0.999;

  const std::vector<double>& norms() const { return norms_; }
  const ExamMeans& means() const { return exam_means_; }  // after finish()

 private:
  void add_row(std::span<const float> row);
  Json spread() const;
  Json identical_exams(const CacheReader& cache);
  Json near_duplicates(const CacheReader& cache, NearestRows* nearest);

  std::size_t dimension_, rows_ = 0, missing_ = 0, nan_ = 0, zero_ = 0, exams_ = 0;
  std::vector<float> lowest_, highest_;
  std::vector<double> sum_, squares_;  // per dimension
  std::vector<double> norms_;
  std::vector<std::uint64_t> row_hashes_;
  std::vector<std::pair<std::uint64_t, std::size_t>> exam_hashes_;
  std::vector<std::size_t> sampled_;  // slots
  std::size_t next_sample_ = 0;
  Matrix sample_;
  ExamMeansBuilder means_;
  ExamMeans exam_means_;
};

// Goes through `exams` of one view of the cache; `also` sees them too.
FeatureStatistics gather_statistics(const CacheReader& cache, const std::string& view,
                                    std::span<const std::size_t> exams,
                                    const CacheReader::Visit& also = {});

// Which exams were compared for a view's `near_duplicates`: "130 exams, all pairs".
std::string compared_exams(const Json& near_duplicates);

}  // namespace coldframe::cache::tool
