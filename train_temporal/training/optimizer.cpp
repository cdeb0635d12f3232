#include "train_temporal/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr std::int64_t kChunk = 16384;  // values a turn; fixed, as the norm's sum depends on it

}  // namespace

AdamW::AdamW(const std::vector<OptimizedModule>& modules, double weight_decay) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all, flat, decay;
  std::int64_t size = 0;
  for (const auto& [module, rate, kept, rates] : modules) {
    bool first = true;
    for (const auto& item : module.named_parameters()) {
      const torch::Tensor& parameter = item.value();
      const std::string name = item.key().substr(item.key().rfind('.') + 1);
      all.push_back(parameter);
      flat.push_back(parameter.flatten());
      const bool decays = parameter.dim() > 1 && !kept.contains(name);
      decay.push_back(torch::full_like(flat.back(), decays ? weight_decay : 0.0));
      const auto own = rates.find(item.key());
      const double at = own == rates.end() ? rate : rate * own->second;
      if (first || parts_.back().rate != at) parts_.push_back({size, 0, at});
      first = false;
      parts_.back().size += parameter.numel();
      size += parameter.numel();
    }
  }
  parameters_ = torch::cat(flat);
  decay_ = torch::cat(decay);
  gradients_ = torch::zeros_like(parameters_);
  first_moment_ = torch::zeros_like(parameters_);
  second_moment_ = torch::zeros_like(parameters_);
  std::int64_t offset = 0;
  for (torch::Tensor& parameter : all) {
    const std::int64_t values = parameter.numel();
    parameter.set_data(parameters_.narrow(0, offset, values).view(parameter.sizes()));
    parameter.mutable_grad() = gradients_.narrow(0, offset, values).view(parameter.sizes());
    offset += values;
  }
}

// Returns their norm.
double AdamW::sum_gradients(ThreadTeam& team, std::span<float* const> parts) {
  float* const own = gradients_.data_ptr<float>();
  if (parts.empty()) parts = {&own, 1};
  const std::int64_t size = gradients_.numel();
  std::vector<double> squares(static_cast<std::size_t>((size + kChunk - 1) / kChunk));
  team.run(squares.size(), [&](std::size_t i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * kChunk;
    std::vector<float*> sources;
    for (float* part : parts) sources.push_back(part + from);
    squares[i] = kernels().add_all(std::min(kChunk, size - from), sources);
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

void AdamW::clip_gradients(double max_norm, ThreadTeam& team, std::span<float* const> parts) {
  constexpr double kSmall = 1e-6;
  if (!has_kernels()) {
    norm_ = gradients_.norm();
    if (max_norm > 0) gradients_.mul_((max_norm / (norm_ + kSmall)).clamp_max(1));
    return;
  }
  const double norm = sum_gradients(team, parts);
  gradient_scale_ = max_norm > 0 && norm > max_norm ? max_norm / (norm + kSmall) : 1.0;
  norm_ = torch::scalar_tensor(norm, torch::kFloat64);
}

void AdamW::step_on_cpu(const Part& module, double learning_rate, ThreadTeam& team) {
  const auto t = static_cast<double>(steps_);
  AdamStep all;
  all.gradient_scale = static_cast<float>(gradient_scale_);
  all.learning_rate = static_cast<float>(learning_rate);
  all.step_size = static_cast<float>(learning_rate / (1 - std::pow(kBeta1, t)));
  all.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, t)));
  all.beta1_rest = static_cast<float>(1 - kBeta1);
  all.beta2 = static_cast<float>(kBeta2);
  all.beta2_rest = static_cast<float>(1 - kBeta2);
  all.epsilon = static_cast<float>(kEpsilon);
  const std::int64_t end = module.begin + module.size;
  team.run(static_cast<std::size_t>((module.size + kChunk - 1) / kChunk), [&](std::size_t i) {
    const std::int64_t from = module.begin + static_cast<std::int64_t>(i) * kChunk;
    AdamStep part = all;
    part.n = std::min(kChunk, end - from);
    part.parameters = parameters_.data_ptr<float>() + from;
    part.first_moment = first_moment_.data_ptr<float>() + from;
    part.second_moment = second_moment_.data_ptr<float>() + from;
    part.gradients = gradients_.data_ptr<float>() + from;
    part.decay = decay_.data_ptr<float>() + from;
    kernels().adam(part);
  });
}

void AdamW::step_elsewhere(const Part& module, double learning_rate) {
  const auto own = [&](const torch::Tensor& all) {
    return all.narrow(0, module.begin, module.size);
  };
  const torch::Tensor parameters = own(parameters_), gradients = own(gradients_);
  const torch::Tensor first = own(first_moment_), second = own(second_moment_);
  parameters.addcmul_(parameters, own(decay_), -learning_rate);
  first.lerp_(gradients, 1 - kBeta1);
  second.mul_(kBeta2).addcmul_(gradients, gradients, 1 - kBeta2);
  const double correction1 = 1 - std::pow(kBeta1, static_cast<double>(steps_));
  const double correction2 = 1 - std::pow(kBeta2, static_cast<double>(steps_));
  const torch::Tensor denominator = second.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
  parameters.addcdiv_(first, denominator, -learning_rate / correction1);
}

void AdamW::step(double learning_rate, ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  ++steps_;
  for (const Part& module : parts_) {
    if (has_kernels()) {
      step_on_cpu(module, module.rate * learning_rate, team);
    } else {
      step_elsewhere(module, module.rate * learning_rate);
    }
  }
  gradient_scale_ = 1;
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
