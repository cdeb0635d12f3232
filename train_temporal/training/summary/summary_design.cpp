#include "train_temporal/training/summary/summary_design.h"

#include <cmath>

namespace coldframe::temporal {

SummaryDesign summary_design(const torch::Tensor& summaries, const torch::Tensor& covariates) {
  // Of the deviations' mean: what was constant here cannot blow up elsewhere.
  constexpr double kLeastDeviation = 0.01;
  SummaryDesign design;
  const torch::Tensor table = summaries.to(torch::kFloat64);
  const torch::Tensor count = table.isnan().logical_not().sum(0).clamp_min(1);
  design.mean = table.nan_to_num(0.0).sum(0) / count;
  const torch::Tensor from_mean = (table - design.mean).nan_to_num(0.0);
  design.deviation = (from_mean.square().sum(0) / count).sqrt();
  const double floor = kLeastDeviation * design.deviation.mean().item<double>();
  design.deviation = design.deviation.clamp_min(floor > 0 ? floor : 1.0);
  design.x = from_mean / design.deviation;
  if (!covariates.defined()) return design;
  const torch::Tensor own = covariates.to(torch::kFloat64);
  design.covariate_mean = own.mean(0);
  design.covariate_scale =
      std::sqrt(static_cast<double>(table.size(1)) / static_cast<double>(own.size(1)));
  design.x = torch::cat({design.x, (own - design.covariate_mean) * design.covariate_scale}, 1);
  return design;
}

}  // namespace coldframe::temporal
