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

double AdamW::gradient_norm(ThreadTeam& team, std::span<float* const> parts) {
  if (!gradients_.is_cpu()) return gradients_.norm().item<double>();
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

double AdamW::clip_gradients(double max_norm, ThreadTeam& team, std::span<float* const> parts) {
  const double norm = gradient_norm(team, parts);
  gradient_scale_ = max_norm > 0 && norm > max_norm ? max_norm / (norm + 1e-6) : 1.0;
  return norm;
}

void AdamW::step_on_cpu(double learning_rate, ThreadTeam& team) {
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
  const std::int64_t size = parameters_.numel();
  team.run(static_cast<std::size_t>((size + kChunk - 1) / kChunk), [&](std::size_t i) {
    const std::int64_t from = static_cast<std::int64_t>(i) * kChunk;
    AdamStep part = all;
    part.n = std::min(kChunk, size - from);
    part.parameters = parameters_.data_ptr<float>() + from;
    part.first_moment = first_moment_.data_ptr<float>() + from;
    part.second_moment = second_moment_.data_ptr<float>() + from;
    part.gradients = gradients_.data_ptr<float>() + from;
    part.decay = decay_.data_ptr<float>() + from;
    kernels().adam(part);
  });
}

void AdamW::step(double learning_rate, ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  ++steps_;
  if (parameters_.is_cpu()) {
    step_on_cpu(learning_rate, team);
  } else {
    gradients_.mul_(gradient_scale_);
    parameters_.addcmul_(parameters_, decay_, -learning_rate);
    first_moment_.lerp_(gradients_, 1 - kBeta1);
    second_moment_.mul_(kBeta2).addcmul_(gradients_, gradients_, 1 - kBeta2);
    const double correction1 = 1 - std::pow(kBeta1, static_cast<double>(steps_));
    const double correction2 = 1 - std::pow(kBeta2, static_cast<double>(steps_));
    const torch::Tensor denominator =
        second_moment_.sqrt().div_(std::sqrt(correction2)).add_(kEpsilon);
    parameters_.addcdiv_(first_moment_, denominator, -learning_rate / correction1);
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
