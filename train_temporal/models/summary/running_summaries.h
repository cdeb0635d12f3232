// Summaries of the frames so far of one sequence, in memory that does not grow.
#pragma once

#include "train_temporal/models/summary/summaries.h"

namespace coldframe::temporal {

// Means are moved by each frame (Welford 1962), in double: sums of long sequences would round away.
class RunningSummaries {
 public:
  // features: [1, D], none missing. `place`: of the frame on slopes' axis, NaN where unknown.
  void add(const torch::Tensor& features, double place);

  // As summarise() has it, [1, D] float32; one visit.
  torch::Tensor of(Family family) const;

 private:
  torch::Tensor first_, last_, highest_, lowest_;
  torch::Tensor mean_, squares_;  // squares: sums of those from the mean
  torch::Tensor placed_mean_, rises_;  // of frames whose place is known; rises: Σ (p − p̄)(x − x̄)
  double frames_ = 0, placed_ = 0, mean_place_ = 0, spread_ = 0;  // spread: Σ (p − p̄)²
};

}  // namespace coldframe::temporal
