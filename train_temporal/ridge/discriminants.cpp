#include "train_temporal/ridge/discriminants.h"

#include <algorithm>

namespace coldframe::temporal {

constexpr double kRowsOfAbsentClass = 0.5;

Discriminants::Discriminants(const torch::Tensor& rows, const RowLabels& labels)
    : outputs_(labels.outputs) {
  const std::vector<std::int64_t> numbers(labels.value.begin(), labels.value.end());
  const auto classes = static_cast<std::int64_t>(std::max<std::size_t>(labels.outputs, 2));
  const torch::Tensor member =
      torch::one_hot(torch::tensor(numbers, torch::kInt64), classes).to(torch::kFloat64);
  const torch::Tensor count = member.sum(0);
  const auto n = static_cast<double>(std::max<std::int64_t>(rows.size(0), 1));
  mean_ = rows.sum(0) / n;
  const torch::Tensor from_mean = rows - mean_;
  centres_ = from_mean.t().mm(member) / count.clamp_min(1);
  const torch::Tensor within = from_mean - member.mm(centres_.t());
  covariance_ = within.t().mm(within) / n;
  const torch::Tensor shares = count.clamp_min(kRowsOfAbsentClass) / n;
  log_shares_ = outputs_of(shares.log().unsqueeze(0)).squeeze(0);
}

torch::Tensor Discriminants::coefficients(double penalty) const {
  torch::Tensor ridge = covariance_.clone();
  ridge.diagonal().add_(penalty);
  const torch::Tensor weights = torch::cholesky_solve(centres_, torch::linalg_cholesky(ridge));
  const torch::Tensor middle = mean_.unsqueeze(1) + centres_ / 2;
  return outputs_of(torch::cat({weights, -(weights * middle).sum(0, true)}));
}

torch::Tensor Discriminants::outputs_of(const torch::Tensor& classes) const {
  return outputs_ == 1 ? classes.narrow(1, 1, 1) - classes.narrow(1, 0, 1) : classes;
}

}  // namespace coldframe::temporal
