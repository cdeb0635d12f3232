// Linear models with a ridge penalty, fitted exactly:
//   minimise over W [p, C] and b [C]   Σ_i loss(x_i W + b, y_i) + α ‖W‖² / 2
// As in scikit-learn (LogisticRegression with C = 1/α, Ridge with α) and scikit-survival
// (CoxPHSurvivalAnalysis with α); b has no penalty, and Cox's loss no b.
//
// The penalty does not change when features are rotated. So rows are rotated first onto the
// principal axes of X [n, p], of which there are r ≤ min(n, p): exams fewer than features make the
// problem small, and on these axes its second derivatives are nearly diagonal.
#pragma once

#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/tasks/row_labels.h"

namespace coldframe::temporal {

struct PrincipalAxes {
  torch::Tensor rows;      // [n, r + 1] float64: those of X on the axes, and 1
  torch::Tensor axes;      // [p, r] of unit length: X = rows · axesᵀ
  torch::Tensor variance;  // [r] sums of squares of the rows on each axis

  // So much varies per row: of standardised features how many there are.
  double features() const;
};
// x: [n, p] float64, columns of mean 0. std::invalid_argument where a value is not finite: no row
// is left out in silence.
PrincipalAxes principal_axes(const torch::Tensor& x);
PrincipalAxes no_axes(std::int64_t rows);  // of rows without features

// The places of rows as index_select() takes them.
torch::Tensor index_of(const std::vector<std::size_t>& rows);

// The best coefficients [r + 1, C], of the axes and then b. `start`: where to begin, undefined: 0.
// `tolerance`: of the sum to be minimised, relative.
torch::Tensor fit_ridge(const PrincipalAxes& x, const RowLabels& labels, double penalty,
                        double tolerance = 1e-13, const torch::Tensor& start = {});

// The same without the rows of each of K folds, [r + 1, K · C]: fold by fold side by side.
// folds: [n] of each row, 0 … K − 1.
struct RowFolds {
  std::vector<std::size_t> of_row;
  std::size_t count = 0;

  std::vector<std::size_t> rows(std::size_t fold) const;
  std::vector<std::size_t> other_rows(std::size_t fold) const;  // these train
};
torch::Tensor fit_without_folds(const PrincipalAxes& x, const RowLabels& labels,
                                const RowFolds& folds, double penalty, const torch::Tensor& start);

}  // namespace coldframe::temporal
