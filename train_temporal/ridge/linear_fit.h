// The linear model that predicts rows of other folds best.
#pragma once

#include <limits>
#include <vector>

#include "train_temporal/ridge/ridge.h"

namespace coldframe::temporal {

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
