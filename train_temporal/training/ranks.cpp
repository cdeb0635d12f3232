#include "train_temporal/training/ranks.h"

#include <algorithm>
#include <numeric>

#include "train_temporal/training/checkpoint.h"

namespace coldframe::temporal {

Share Ranks::share() const {
  if (group_ == nullptr) return {};
  return {static_cast<std::size_t>(group_->rank()), static_cast<std::size_t>(group_->size())};
}

void Ranks::adopt(SequenceModel& model) const {
  if (group_ == nullptr) return;
  for (const torch::Tensor& tensor : model.parameters()) group_->broadcast(tensor);
  for (const torch::Tensor& tensor : model.buffers()) group_->broadcast(tensor);
}

void Ranks::adopt(EpochLosses& losses) const {
  if (group_ == nullptr) return;
  const torch::Tensor values = torch::tensor(
      {losses.train, losses.validation, losses.learning_rate, losses.figure}, torch::kFloat64);
  group_->broadcast(values);
  const double* value = values.const_data_ptr<double>();
  losses = {value[0], value[1], value[2], value[3]};
}

void Ranks::adopt(FitState& state) const {
  if (group_ == nullptr) return;
  const Json json = Json::parse(group_->broadcast(state_json(state).dump()));
  read_state(json, state);
  for (torch::Tensor* tensor :
       {&state.parameters, &state.first_moment, &state.second_moment, &state.best_parameters}) {
    *tensor = tensor->clone();
    group_->broadcast(*tensor);
  }
}

bool Ranks::add_up(LossSum& sum, bool enough_memory) const {
  if (group_ == nullptr) return enough_memory;
  std::vector<double> values = {enough_memory ? 0.0 : 1.0};
  for (const LossSum::Part& target : sum.targets) values.push_back(target.loss);
  group_->sum(std::span(values));
  for (std::size_t i = 0; i < sum.targets.size(); ++i) sum.targets[i].loss = values[i + 1];
  return values[0] == 0;
}

void Ranks::add_up(std::span<float* const> parts, const torch::Tensor& gradients) const {
  if (!gradients.is_cpu()) return group_->sum(gradients);
  float* const own = gradients.data_ptr<float>();
  std::vector<const float*> sources(parts.begin(), parts.end());
  group_->sum(sources, {own, static_cast<std::size_t>(gradients.numel())});
}

std::uint64_t Ranks::least(std::uint64_t own) const {
  std::uint64_t least = 0;
  for (const double value : concatenate({static_cast<double>(own)})) {
    const auto one = static_cast<std::uint64_t>(value);
    if (one > 0 && (least == 0 || one < least)) least = one;
  }
  return least;
}

std::vector<double> Ranks::concatenate(const std::vector<double>& own) const {
  if (group_ == nullptr) return own;
  const Share share = this->share();
  std::vector<double> sizes(share.size);
  sizes[share.rank] = static_cast<double>(own.size());
  group_->sum(std::span(sizes));
  const auto before = sizes.begin() + static_cast<std::ptrdiff_t>(share.rank);
  std::vector<double> all(
      static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), 0.0)));
  std::copy(own.begin(), own.end(),
            all.begin() + static_cast<std::ptrdiff_t>(std::accumulate(sizes.begin(), before, 0.0)));
  group_->sum(std::span(all));
  return all;
}

}  // namespace coldframe::temporal
