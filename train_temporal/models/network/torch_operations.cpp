#include "train_temporal/models/network/torch_operations.h"

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Standardised inputs x [N, D] with 0 for what is missing, and for all streams but
// config.only_stream, if there is one.
torch::Tensor without_missing(const torch::Tensor& x, const ModelConfig& config) {
  const torch::Tensor known = x.nan_to_num(0.0);
  if (config.only_stream < 0) return known;
  const std::int64_t streams = std::ssize(config.streams), width = config.stream_width();
  torch::Tensor seen = torch::ones({x.size(1)}, x.options());
  seen.narrow(0, 0, streams * width + streams).zero_();
  seen.narrow(0, config.only_stream * width, width).fill_(1);
  seen[streams * width + config.only_stream] = 1;
  return known * seen;
}

}  // namespace

Value TorchOperations::features() {
  torch::Tensor x = (features_ - tensor("feature_mean")) / tensor("feature_std");
  if (!config_.blank) add_noise(x);
  return of(config_.streams.empty() ? x : without_missing(x, config_));
}

TimeInputs TorchOperations::times() {
  const std::int64_t values = config_.time_values();
  return {of((time_.narrow(1, kLogInterval, values) - tensor("time_mean")) / tensor("time_std")),
          of(time_.narrow(1, kIntervalKnown, values)), of(time_.narrow(1, kTimeKnown, 1))};
}

Value TorchOperations::linear(const Value& x, const std::string& name, std::int64_t) {
  return of(at::linear(x.tensor, tensor(weight_of(name)), tensor(bias_of(name))));
}

Value TorchOperations::norm(const Value& x, const std::string& name) {
  return of(torch::layer_norm(x.tensor, {x.width}, tensor(weight_of(name)), tensor(bias_of(name))));
}

Value TorchOperations::join(const std::vector<Value>& parts) {
  std::vector<torch::Tensor> tensors;
  for (const Value& part : parts) tensors.push_back(part.tensor);
  return of(torch::cat(tensors, 1));
}

Value TorchOperations::weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
                             const Value& there) {
  std::vector<torch::Tensor> all_values, all_scores;
  for (const Value& value : values) all_values.push_back(value.tensor);
  for (const Value& score : scores) all_scores.push_back(score.tensor);
  const torch::Tensor score = torch::stack(all_scores);         // [S, N, H]
  const torch::Tensor present = there.tensor.t().unsqueeze(2);  // [S, N, 1]
  const torch::Tensor weight = present * (score - std::get<0>(score.detach().max(0, true))).exp();
  // The sum is 0 where no stream is left, as in a control that sees another one alone.
  constexpr double kNothing = 1e-12;
  return of((weight * torch::stack(all_values)).sum(0) / weight.sum(0).clamp_min(kNothing));
}

std::vector<torch::Tensor> TorchOperations::recurrent_weights(std::int64_t layer) const {
  std::vector<torch::Tensor> weights;
  const std::string name = config_.architecture->name;
  for (const char* end : {"", "_reverse"}) {
    if (*end != '\0' && !config_.bidirectional) continue;
    for (const char* part : {".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh"})
      weights.push_back(tensor(concat(name, part, "_l", layer, end)));
  }
  return weights;
}

torch::Tensor TorchOperations::decay_factors(std::int64_t layer) const {
  const torch::Tensor interval =
      (time_.narrow(1, kLogInterval, 1) - tensor("time_mean").narrow(0, 0, 1)).exp() *
      time_.narrow(1, kIntervalKnown, 1);  // [N, 1]
  const std::string name = concat("decay_l", layer);
  const torch::Tensor rate = at::linear(interval, tensor(weight_of(name)), tensor(bias_of(name)));
  return (-torch::relu(rate)).exp();
}

Value TorchOperations::convolved(const torch::Tensor& x, const std::string& name) const {
  const torch::Tensor& weight = tensor(weight_of(name));  // [W, in, taps]
  return of(at::linear(x, weight.transpose(1, 2).flatten(1), tensor(bias_of(name))));
}

}  // namespace coldframe::temporal
