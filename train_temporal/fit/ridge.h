// Linear models with a ridge penalty, fitted exactly:
//   minimise over W [p, C] and b [C]   Σ_i loss(x_i W + b, y_i) + α ‖W‖² / 2
// As in scikit-learn (LogisticRegression with C = 1/α, Ridge with α) and scikit-survival
// (CoxPHSurvivalAnalysis with α); b has no penalty, and Cox's loss no b.
//
// The penalty is invariant to rotations of the features. So rows are first rotated onto the r ≤
// min(n, p) principal axes of X [n, p]: with fewer exams than features the problem becomes small,
// and the Hessian is nearly diagonal on these axes.
#pragma once

#include <limits>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

struct PrincipalAxes {
  torch::Tensor rows;      // [n, r + 1] float64: coordinates of X's rows on the axes, then 1
  torch::Tensor axes;      // [p, r] unit vectors: X = rows · axesᵀ
  torch::Tensor variance;  // [r] sums of squares of the rows on each axis

  // Total variance per row; for standardised features, their number.
  double features() const;
};
// x: [n, p] float64, columns of mean 0. Throws std::invalid_argument if a value is not finite: no
// row is dropped silently.
PrincipalAxes principal_axes(const torch::Tensor& x);
PrincipalAxes no_axes(std::int64_t rows);  // for rows without features

// Row indices as a tensor for index_select().
torch::Tensor index_of(const std::vector<std::size_t>& rows);

// The optimal coefficients [r + 1, C]: those of the axes, then b. `start`: initial values;
// undefined: 0. `tolerance`: relative, of the objective.
torch::Tensor fit_ridge(const PrincipalAxes& x, const RowLabels& labels, double penalty,
                        double tolerance = 1e-13, const torch::Tensor& start = {});

// The coefficients fitted without the rows of each of K folds, concatenated by fold, [r + 1, K ·
// C]. folds: [n] fold of each row, 0 … K − 1.
struct RowFolds {
  std::vector<std::size_t> of_row;
  std::size_t count = 0;

  std::vector<std::size_t> rows(std::size_t fold) const;
  std::vector<std::size_t> other_rows(std::size_t fold) const;  // the training rows
};
torch::Tensor fit_without_folds(const PrincipalAxes& x, const RowLabels& labels,
                                const RowFolds& folds, double penalty, const torch::Tensor& start);

// Linear discriminants of classes (Fisher 1936), whose covariance has a ridge (Friedman 1989):
//   output_c(x) = (x − m)ᵀ (S + λ I)⁻¹ μ_c − μ_cᵀ (S + λ I)⁻¹ μ_c / 2 + log π_c
// with the mean m of all rows, the mean m + μ_c and the prior π_c of class c, and the within-class
// covariance S (divided by n). Like scikit-learn's LinearDiscriminantAnalysis with the covariance S
// + λ I.
//
// They need fewer exams per class than logistic regression (Efron 1975) if features are about
// normal within a class, as means of frames are. All exams contribute to the covariance; only the
// mean must come from the class.

// The class statistics of the rows.
class Discriminants {
 public:
  // rows: [n, r] float64. labels: RowLabels::of_classes(). A class without rows counts as half a
  // row at the mean.
  Discriminants(const torch::Tensor& rows, const RowLabels& labels);

  // The coefficients [r + 1, C] without log π, for rows that end with a 1. `penalty`: λ > 0. Two
  // classes have one output: the difference of the discriminants.
  torch::Tensor coefficients(double penalty) const;
  const torch::Tensor& log_shares() const { return log_shares_; }  // [C] log π

 private:
  torch::Tensor outputs_of(const torch::Tensor& classes) const;

  std::size_t outputs_;
  torch::Tensor mean_, centres_, covariance_, log_shares_;  // m [r], μ [r, classes], S [r, r]
};

// Chooses the linear model with the best cross-validated predictions.

// How to fit a linear model: discriminants for classes, ridge regression for all others.
struct LinearFit {
  double penalty = 0;
  double multiple = 1;  // scales discriminants, which are overconfident with few rows
  double loss = std::numeric_limits<double>::infinity();  // over all rows, each without its fold
  std::vector<double> held_out = {};                      // [n, C] those predictions
};
LinearFit choose_fit(const PrincipalAxes& x, const RowLabels& labels, const RowFolds& folds);

// The log-likelihood of labels given predictions with this loss, up to a constant. Squared errors
// use the maximum-likelihood variance.
double log_likelihood(const RowLabels& labels, double loss);

// The coefficients [r + 1, C] fitted to all rows: those of the axes, then the constant.
torch::Tensor fit_chosen(const PrincipalAxes& x, const RowLabels& labels, const LinearFit& fit);

}  // namespace coldframe::temporal
