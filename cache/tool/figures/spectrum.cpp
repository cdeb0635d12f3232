#include "cache/tool/figures/spectrum.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace coldframe::cache::tool {
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

}  // namespace coldframe::cache::tool
