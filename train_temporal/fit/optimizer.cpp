#include "train_temporal/fit/optimizer.h"

#include <ATen/ops/_fused_adamw.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "train_temporal/models/kernels/kernels.h"

namespace coldframe::temporal {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr double kSmallNorm = 1e-6;     // beside a norm that something is divided by
constexpr std::int64_t kChunk = 16384;  // values a turn; fixed, as the norm's sum depends on it

}  // namespace

AdamW::AdamW(const std::vector<OptimizedModule>& modules, double weight_decay) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> all, flat, decay;
  std::vector<ContiguousRange> runs;  // of adjacent parameters with the same rate and decay
  std::int64_t size = 0;
  for (const auto& [module, rate, kept, rates] : modules) {
    bool first = true;
    for (const auto& item : module.named_parameters()) {
      const torch::Tensor& parameter = item.value();
      const std::string name = item.key().substr(item.key().rfind('.') + 1);
      all.push_back(parameter);
      flat.push_back(parameter.flatten());
      const double own_decay = parameter.dim() > 1 && !kept.contains(name) ? weight_decay : 0;
      decay.push_back(torch::full_like(flat.back(), own_decay));
      const auto own = rates.find(item.key());
      const double at = own == rates.end() ? rate : rate * own->second;
      if (first || parts_.back().rate != at) parts_.push_back({size, 0, at});
      if (runs.empty() || runs.back().rate != at || runs.back().decay != own_decay)
        runs.push_back({size, 0, at, own_decay});
      first = false;
      parts_.back().size += parameter.numel();
      runs.back().size += parameter.numel();
      size += parameter.numel();
    }
  }
  parameters_ = torch::cat(flat);
  decay_ = torch::cat(decay);
  gradients_ = torch::zeros_like(parameters_);
  first_moment_ = torch::zeros_like(parameters_);
  second_moment_ = torch::zeros_like(parameters_);
  steps_there_ = torch::zeros({}, parameters_.options().dtype(torch::kFloat32));
  for (const ContiguousRange& run : runs) add_to_group(run);
  std::int64_t offset = 0;
  for (torch::Tensor& parameter : all) {
    const std::int64_t values = parameter.numel();
    parameter.set_data(parameters_.narrow(0, offset, values).view(parameter.sizes()));
    parameter.mutable_grad() = gradients_.narrow(0, offset, values).view(parameter.sizes());
    offset += values;
  }
}

void AdamW::add_to_group(const ContiguousRange& run) {
  auto group = std::ranges::find_if(groups_, [&](const Group& known) {
    return known.rate == run.rate && known.decay == run.decay;
  });
  if (group == groups_.end())
    group = groups_.insert(groups_.end(), {run.rate, run.decay, {}, {}, {}, {}, {}});
  const auto of = [&](const torch::Tensor& all) { return all.narrow(0, run.begin, run.size); };
  group->parameters.push_back(of(parameters_));
  group->gradients.push_back(of(gradients_));
  group->first_moment.push_back(of(first_moment_));
  group->second_moment.push_back(of(second_moment_));
  group->steps.push_back(steps_there_);
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
  if (!has_kernels()) return norm_by_operations(max_norm);
  const double norm = sum_gradients(team, parts);
  gradient_scale_ = max_norm > 0 && norm > max_norm ? max_norm / (norm + kSmallNorm) : 1.0;
  norm_ = torch::scalar_tensor(norm, torch::kFloat64);
}

void AdamW::norm_by_operations(double max_norm) {
  norm_ = gradients_.norm();
  divisor_.reset();
  if (max_norm > 0) divisor_ = ((norm_ + kSmallNorm) / max_norm).clamp_min(1).to(torch::kFloat32);
}

void AdamW::step_on_cpu(const ParameterRange& module, double learning_rate, ThreadTeam& team) {
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

void AdamW::step_groups(const torch::Tensor& learning_rate) {
  steps_there_.add_(1);
  for (Group& group : groups_) {
    at::_fused_adamw_(group.parameters, group.gradients, group.first_moment, group.second_moment,
                      /*max_exp_avg_sqs=*/{}, group.steps,
                      group.rate == 1 ? learning_rate : learning_rate * group.rate, kBeta1, kBeta2,
                      group.decay, kEpsilon, /*amsgrad=*/false, /*maximize=*/false, divisor_);
  }
  divisor_.reset();
}

void AdamW::step_by_operations(const torch::Tensor& learning_rate, double max_norm) {
  const torch::NoGradGuard no_grad;
  norm_by_operations(max_norm);
  step_groups(learning_rate);
}

void AdamW::step(double learning_rate, ThreadTeam& team) {
  torch::NoGradGuard no_grad;
  ++steps_;
  if (!has_kernels()) return step_groups(torch::full({}, learning_rate, steps_there_.options()));
  for (const ParameterRange& module : parts_)
    step_on_cpu(module, module.rate * learning_rate, team);
  gradient_scale_ = 1;
}

void AdamW::set_steps(std::int64_t steps) {
  steps_ = steps;
  steps_there_.fill_(static_cast<double>(steps));
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
