// The rows of a linear model: standardised summaries of exams and, behind them, covariates.
#pragma once

#include "common/torch/tensor.h"

namespace coldframe::temporal {

struct SummaryDesign {
  torch::Tensor mean, deviation;  // [D] of the summaries
  torch::Tensor x;                // [n, D + K] float64; summaries that are NaN count as their mean
  torch::Tensor covariate_mean;   // [K]; undefined: none
  double covariate_scale = 1;     // all K together weigh as much as the D summaries do
};

// summaries: [n, D]; covariates: [n, K] or undefined.
SummaryDesign summary_design(const torch::Tensor& summaries, const torch::Tensor& covariates);

}  // namespace coldframe::temporal
