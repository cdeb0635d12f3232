#include "train_temporal/models/summary/running_summaries.h"

#include <cmath>
#include <limits>

namespace coldframe::temporal {

void RunningSummaries::add(const torch::Tensor& features, double place) {
  const torch::Tensor x = features.to(torch::kFloat64);
  if (frames_ == 0) {
    first_ = highest_ = lowest_ = x;
    mean_ = squares_ = placed_mean_ = rises_ = torch::zeros_like(x);
  }
  last_ = x;
  highest_ = torch::maximum(highest_, x);
  lowest_ = torch::minimum(lowest_, x);
  const torch::Tensor from_mean = x - mean_;
  mean_ = mean_ + from_mean / ++frames_;
  squares_ = squares_ + from_mean * (x - mean_);
  if (std::isnan(place)) return;
  const double step = place - mean_place_;
  mean_place_ += step / ++placed_;
  spread_ += step * (place - mean_place_);
  placed_mean_ = placed_mean_ + (x - placed_mean_) / placed_;
  rises_ = rises_ + step * (x - placed_mean_);
}

torch::Tensor RunningSummaries::of(Family family) const {
  const auto summary = [&]() -> torch::Tensor {
    switch (family) {
      case Family::kAverage:
        return mean_;
      case Family::kMaximum:
        return highest_;
      case Family::kMinimum:
        return lowest_;
      case Family::kDeviation:
        return (squares_ / frames_).clamp_min(kLeastSummaryVariance).sqrt();
      case Family::kFirst:
        return first_;
      case Family::kLast:
        return last_;
      case Family::kChange:
        return last_ - first_;
      case Family::kSlope:
        if (placed_ == 0) return torch::full_like(mean_, std::numeric_limits<double>::quiet_NaN());
        return rises_ / (spread_ > 0 ? spread_ : 1);
      case Family::kVisits:
        break;
    }
    return torch::zeros_like(mean_);
  };
  return summary().to(torch::kFloat32);
}

}  // namespace coldframe::temporal
