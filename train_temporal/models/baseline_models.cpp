#include "train_temporal/models/baseline_models.h"

#include "train_temporal/models/gru_model.h"

namespace coldframe::temporal {

PooledModel::PooledModel(const ModelConfig& config) {
  feature_mean = register_buffer("feature_mean", torch::zeros({config.dimension}));
  feature_std = register_buffer("feature_std", torch::ones({config.dimension}));
  project = register_module("project", torch::nn::Linear(config.dimension, config.hidden));
  if (config.architecture == Architecture::kAttention) {
    attention = register_module("attention", torch::nn::Linear(config.hidden, 1));
  }
  head = register_module("head", torch::nn::Linear(config.hidden, config.classes));
}

void PooledModel::set_statistics(const InputStatistics& statistics) {
  feature_mean.copy_(statistics.feature_mean);
  feature_std.copy_(statistics.feature_std);
}

torch::Tensor PooledModel::forward(const torch::Tensor& features, const Batch& batch,
                                   const Dropout& dropout) {
  torch::Tensor x = project((features - feature_mean) / feature_std);  // [N, H]
  x = dropout(x, Stream::kProjectionDropout, batch.row_keys);
  const torch::Tensor frames = pad_packed(x, batch);  // [B, T, H]
  x = attention.is_empty() ? mean_over_frames(frames, batch)
                           : attention_over_frames(frames, attention(frames), batch);  // [B, H]
  return head(dropout(x, Stream::kHeadDropout, batch.exam_keys));                      // [B, C]
}

ClockModel::ClockModel(const ModelConfig& config) {
  clock_mean = register_buffer("clock_mean", torch::zeros({config.clock_width}));
  clock_std = register_buffer("clock_std", torch::ones({config.clock_width}));
  project = register_module("project", torch::nn::Linear(config.clock_width, kClockHidden));
  head = register_module("head", torch::nn::Linear(kClockHidden, config.classes));
}

void ClockModel::set_statistics(const InputStatistics& statistics) {
  clock_mean.copy_(statistics.clock_mean);
  clock_std.copy_(statistics.clock_std);
}

torch::Tensor ClockModel::forward(const torch::Tensor&, const Batch& batch,
                                  const Dropout& dropout) {
  const torch::Tensor x = torch::relu(project((batch.clock - clock_mean) / clock_std));  // [B, 32]
  return head(dropout(x, Stream::kHeadDropout, batch.exam_keys));                        // [B, C]
}

}  // namespace coldframe::temporal
