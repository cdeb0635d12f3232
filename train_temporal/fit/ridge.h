// Linear models with a ridge penalty, fitted exactly:
//   minimise over W [p, C] and b [C]   Σ_i loss(x_i W + b, y_i) + α ‖W‖² / 2
// As in scikit-learn (LogisticRegression with C = 1/α, Ridge with α) and scikit-survival
// (CoxPHSurvivalAnalysis with α); b has no penalty, and Cox's loss no b.
//
// The penalty does not change when features are rotated. So rows are rotated first onto the
// principal axes of X [n, p], of which there are r ≤ min(n, p): exams fewer than features make the
// problem small, and on these axes its second derivatives are nearly diagonal.
#pragma once

#include <limits>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/labels/task_kind.h"

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

// Linear discriminants of classes (Fisher 1936), whose covariance has a ridge (Friedman 1989):
//   output_c(x) = (x − m)ᵀ (S + λ I)⁻¹ μ_c − μ_cᵀ (S + λ I)⁻¹ μ_c / 2 + log π_c
// with the mean m of all rows, the mean m + μ_c and the share π_c of a class, and the covariance S
// within classes, by n. As scikit-learn's LinearDiscriminantAnalysis with the covariance S + λ I.
//
// They find with few exams of a class what a logistic regression finds with many (Efron 1975), if
// features are about normal within a class, as means of frames are. Every exam shows how features
// vary; only the mean has to come from the class.

// What rows show of their classes.
class Discriminants {
 public:
  // rows: [n, r] float64. labels: RowLabels::of_classes(). A class without a row counts as half a
  // row at the mean.
  Discriminants(const torch::Tensor& rows, const RowLabels& labels);

  // [r + 1, C] of the discriminants without log π, for rows that end with a 1. `penalty`: λ > 0. Of
  // two classes there is one output: the difference of theirs.
  torch::Tensor coefficients(double penalty) const;
  const torch::Tensor& log_shares() const { return log_shares_; }  // [C] log π

 private:
  torch::Tensor outputs_of(const torch::Tensor& classes) const;

  std::size_t outputs_;
  torch::Tensor mean_, centres_, covariance_, log_shares_;  // m [r], μ [r, classes], S [r, r]
};

// The linear model that predicts rows of other folds best.

// How a linear model is fitted. Rows of classes take discriminants, all others a ridge regression.
struct LinearFit {
  double penalty = 0;
  double multiple = 1;  // of discriminants, which without it are too sure of few rows
  double loss = std::numeric_limits<double>::infinity();  // of all rows, each without its fold
  std::vector<double> held_out = {};                      // [n, C] these predictions
};
LinearFit choose_fit(const PrincipalAxes& x, const RowLabels& labels, const RowFolds& folds);

// The log-likelihood of labels by predictions that have this loss, but for a constant. Squares have
// the variance that suits them best.
double log_likelihood(const RowLabels& labels, double loss);

// The coefficients [r + 1, C], of the axes and then the constant, from all rows.
torch::Tensor fit_chosen(const PrincipalAxes& x, const RowLabels& labels, const LinearFit& fit);

}  // namespace coldframe::temporal
