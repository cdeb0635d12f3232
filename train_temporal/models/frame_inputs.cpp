#include "train_temporal/models/frame_inputs.h"

#include <string>

#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

FrameInputs::FrameInputs(torch::nn::Module& model, const ModelConfig& config)
    : blank_(config.blank),
      streams_(static_cast<std::int64_t>(config.streams.size())),
      only_(config.only_stream) {
  mean_ = model.register_buffer("feature_mean", torch::zeros({config.dimension}));
  deviation_ = model.register_buffer("feature_std", torch::ones({config.dimension}));
  if (!config.gated) {
    project_ = model.register_module("project", torch::nn::Linear(config.dimension, config.hidden));
    return;
  }
  auto list = model.register_module("fusion", std::make_shared<torch::nn::Module>());
  const std::int64_t width = config.dimension / streams_ - 1;
  for (std::int64_t s = 0; s < streams_; ++s)
    fusion_.push_back(
        list->register_module(std::to_string(s), torch::nn::Linear(width, 2 * config.hidden)));
}

void FrameInputs::set_statistics(const InputStatistics& statistics) {
  mean_.copy_(statistics.feature_mean);
  deviation_.copy_(statistics.feature_std);
  if (blank_) deviation_.fill_(kBlankDeviation);
}

torch::Tensor FrameInputs::operator()(const torch::Tensor& features,
                                      std::span<const std::uint64_t> keys, const Dropout& dropout) {
  torch::Tensor x = (features - mean_) / deviation_;
  if (!blank_) dropout.add_noise(keys, x);
  if (streams_ > 0) x = without_missing(x, streams_, only_);
  x = fusion_.empty() ? project_(x) : project_streams(x);
  return dropout(x, Stream::kProjectionDropout, keys);
}

torch::Tensor FrameInputs::project_streams(const torch::Tensor& x) {
  const std::int64_t width = x.size(1) / streams_ - 1;
  std::vector<torch::Tensor> values, scores;
  for (std::int64_t s = 0; s < streams_; ++s) {
    const auto both =
        fusion_[static_cast<std::size_t>(s)](x.narrow(1, s * width, width)).chunk(2, 1);
    values.push_back(both[0].tanh());
    scores.push_back(both[1]);
  }
  const torch::Tensor there =
      x.narrow(1, streams_ * width, streams_).t().unsqueeze(2);  // [S, N, 1]
  const torch::Tensor score = torch::stack(scores);              // [S, N, H]
  const torch::Tensor weight = there * (score - std::get<0>(score.detach().max(0, true))).exp();
  // Where no stream is left, as in a control that sees another one alone, the sum is 0.
  constexpr double kNothing = 1e-12;
  return (weight * torch::stack(values)).sum(0) / weight.sum(0).clamp_min(kNothing);
}

torch::Tensor without_missing(const torch::Tensor& x, std::int64_t streams, std::int64_t only) {
  const torch::Tensor known = x.nan_to_num(0.0);
  if (only < 0) return known;
  const std::int64_t width = x.size(1) / streams - 1;
  torch::Tensor seen = torch::zeros({x.size(1)}, x.options());
  seen.narrow(0, only * width, width).fill_(1);
  seen[streams * width + only] = 1;
  return known * seen;
}

}  // namespace coldframe::temporal
