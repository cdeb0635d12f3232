// Linear discriminants of classes (Fisher 1936), whose covariance has a ridge (Friedman 1989):
//   output_c(x) = (x − m)ᵀ (S + λ I)⁻¹ μ_c − μ_cᵀ (S + λ I)⁻¹ μ_c / 2 + log π_c
// with the mean m of all rows, the mean m + μ_c and the share π_c of a class, and the covariance S
// within classes, by n. As scikit-learn's LinearDiscriminantAnalysis with the covariance S + λ I.
//
// They find with few exams of a class what a logistic regression finds with many (Efron 1975), if
// features are about normal within a class, as means of frames are. Every exam shows how features
// vary; only the mean has to come from the class.
#pragma once

#include "train_temporal/ridge/ridge.h"

namespace coldframe::temporal {

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

}  // namespace coldframe::temporal
