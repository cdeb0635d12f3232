// Reads the singular values of a matrix of features.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace coldframe::cache::tool {

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

// The mean of the rows, which is taken away from each.
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

}  // namespace coldframe::cache::tool
