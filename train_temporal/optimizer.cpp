#include "train_temporal/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coldframe::temporal {

AdamW::AdamW(torch::nn::Module& model, double weight_decay) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> flat, decay;
  for (const torch::Tensor& parameter : model.parameters()) {
    flat.push_back(parameter.flatten());
    decay.push_back(torch::full_like(flat.back(), parameter.dim() > 1 ? weight_decay : 0.0));
  }
  parameters_ = torch::cat(flat);
  decay_ = torch::cat(decay);
  gradients_ = torch::zeros_like(parameters_);
  first_moment_ = torch::zeros_like(parameters_);
  second_moment_ = torch::zeros_like(parameters_);
  std::int64_t offset = 0;
  for (torch::Tensor& parameter : model.parameters()) {
    const std::int64_t size = parameter.numel();
    parameter.set_data(parameters_.narrow(0, offset, size).view(parameter.sizes()));
    parameter.mutable_grad() = gradients_.narrow(0, offset, size).view(parameter.sizes());
    offset += size;
  }
}

double AdamW::clip_gradients(double max_norm) {
  const double norm = gradients_.norm().item<double>();
  if (max_norm > 0 && norm > max_norm) gradients_.mul_(max_norm / (norm + 1e-6));
  return norm;
}

void AdamW::step(double learning_rate) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  torch::NoGradGuard no_grad;
  ++steps_;
  parameters_.addcmul_(parameters_, decay_, -learning_rate);
  first_moment_.lerp_(gradients_, 1 - kBeta1);
  second_moment_.mul_(kBeta2).addcmul_(gradients_, gradients_, 1 - kBeta2);
  const double correction1 = 1 - std::pow(kBeta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(kBeta2, static_cast<double>(steps_));
  const torch::Tensor denominator =
      second_moment_.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
  parameters_.addcdiv_(first_moment_, denominator, -learning_rate / correction1);
}

double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t steps,
                       std::int64_t warmup) {
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (schedule == Schedule::kConstant) return 1.0;
  const auto past = static_cast<double>(step - warmup);
  const auto length = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  return 0.5 * (1 + std::cos(std::numbers::pi * past / length));
}

}  // namespace coldframe::temporal
