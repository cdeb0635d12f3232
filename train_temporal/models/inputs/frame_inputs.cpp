#include "train_temporal/models/inputs/frame_inputs.h"

#include <cmath>
#include <string>

#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

FrameInputs::FrameInputs(torch::nn::Module& model, const ModelConfig& config) : config_(config) {
  mean_ = model.register_buffer("feature_mean", torch::zeros({config.dimension}));
  deviation_ = model.register_buffer("feature_std", torch::ones({config.dimension}));
  if (!config.gated) {
    project_ = model.register_module("project", torch::nn::Linear(config.dimension, config.hidden));
    return;
  }
  auto list = model.register_module("fusion", std::make_shared<torch::nn::Module>());
  const torch::nn::LinearOptions each(config.stream_width(), 2 * config.hidden);
  for (std::size_t s = 0; s < config.streams.size(); ++s)
    fusion_.push_back(list->register_module(std::to_string(s), torch::nn::Linear(each)));
}

void FrameInputs::set_statistics(const InputStatistics& statistics) {
  const std::int64_t features = config_.features();
  mean_.zero_().narrow(0, 0, features).copy_(statistics.feature_mean);
  deviation_.narrow(0, 0, features).copy_(statistics.feature_std);
  if (config_.blank) deviation_.fill_(kBlankDeviation);
  if (!config_.frame_covariates) return;
  const double share = double(config_.covariates) / double(features);
  deviation_.narrow(0, features, config_.covariates).fill_(std::sqrt(share));
}

torch::Tensor FrameInputs::operator()(const torch::Tensor& features,
                                      std::span<const std::uint64_t> keys, const Dropout& dropout) {
  torch::Tensor x = (features - mean_) / deviation_;
  if (!config_.blank) dropout.add_noise(keys, x);
  if (!config_.streams.empty()) x = without_missing(x, config_);
  x = config_.gated ? weigh_streams(x) : project_(x);
  return dropout(x, RandomPurpose::kProjectionDropout, keys);
}

torch::Tensor FrameInputs::weigh_streams(const torch::Tensor& x) {
  const std::int64_t streams = std::ssize(config_.streams), width = config_.stream_width();
  std::vector<torch::Tensor> values, scores;
  for (std::int64_t s = 0; s < streams; ++s) {
    torch::nn::Linear& fusion = fusion_[static_cast<std::size_t>(s)];
    const auto both = fusion(x.narrow(1, s * width, width)).chunk(2, 1);
    values.push_back(both[0].tanh());
    scores.push_back(both[1]);
  }
  const torch::Tensor score = torch::stack(scores);                                    // [S, N, H]
  const torch::Tensor there = x.narrow(1, streams * width, streams).t().unsqueeze(2);  // [S, N, 1]
  const torch::Tensor weight = there * (score - std::get<0>(score.detach().max(0, true))).exp();
  // The sum is 0 where no stream is left, as in a control that sees another one alone.
  constexpr double kNothing = 1e-12;
  return (weight * torch::stack(values)).sum(0) / weight.sum(0).clamp_min(kNothing);
}

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

}  // namespace coldframe::temporal
