#include "train_temporal/gru_model.h"

namespace coldframe::temporal {
namespace {

using torch::nn::utils::rnn::PackedSequence;

}  // namespace

GruModel::GruModel(const ModelConfig& config) : config_(config) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t width = config.bidirectional ? 2 * hidden : hidden;
  feature_mean = register_buffer("feature_mean", torch::zeros({config.dimension}));
  feature_std = register_buffer("feature_std", torch::ones({config.dimension}));
  if (config.time) {
    time_mean = register_buffer("time_mean", torch::zeros({2}));
    time_std = register_buffer("time_std", torch::ones({2}));
  }
  project = register_module("project", torch::nn::Linear(config.dimension, hidden));
  gru = register_module(
      "gru", torch::nn::GRU(torch::nn::GRUOptions(hidden + (config.time ? kTimeInputs : 0), hidden)
                                .num_layers(config.layers)
                                .bidirectional(config.bidirectional)));
  if (config.pool == TemporalPool::kAttention) {
    attention = register_module("attention", torch::nn::Linear(width, 1));
  }
  head = register_module("head", torch::nn::Linear(width, config.classes));
}

void GruModel::set_statistics(const InputStatistics& statistics) {
  feature_mean.copy_(statistics.feature_mean);
  feature_std.copy_(statistics.feature_std);
  if (!config_.time) return;
  time_mean.copy_(statistics.time_mean);
  time_std.copy_(statistics.time_std);
}

torch::Tensor GruModel::forward(const torch::Tensor& features, const Batch& batch,
                                const Dropout& dropout) {
  torch::Tensor x = project((features - feature_mean) / feature_std);  // [N, H]
  x = dropout(x, Stream::kProjectionDropout, batch.row_keys);
  if (config_.time) x = torch::cat({x, time_features(batch.time)}, 1);  // [N, H + 3]
  const auto [states, last] = recur(x, batch, dropout);
  x = pool(states, last, batch);                                   // [B, H']
  return head(dropout(x, Stream::kHeadDropout, batch.exam_keys));  // [B, C]
}

std::pair<torch::Tensor, torch::Tensor> GruModel::recur(torch::Tensor x, const Batch& batch,
                                                        const Dropout& dropout) {
  const std::int64_t directions = config_.bidirectional ? 2 : 1;
  const std::vector<torch::Tensor> all = gru->all_weights();
  const std::size_t each = all.size() / static_cast<std::size_t>(config_.layers);
  torch::Tensor last;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto weights = at::TensorList(all).slice(static_cast<std::size_t>(layer) * each, each);
    if (layer > 0) x = dropout(x, layer_dropout(layer - 1), batch.row_keys);
    const torch::Tensor start =
        torch::zeros({directions, batch.size(), config_.hidden}, x.options());
    std::tie(x, last) = torch::gru(x, batch.step_sizes, start, weights, true, 1, 0.0, is_training(),
                                   config_.bidirectional);
  }
  return {x, last};
}

// Standardised where known, 0 elsewhere; the last input says where the time is unknown. [N, 3]
torch::Tensor GruModel::time_features(const torch::Tensor& time) const {
  const torch::Tensor value = (time.narrow(1, kLogInterval, 2) - time_mean) / time_std;
  const torch::Tensor known = time.narrow(1, kIntervalKnown, 2);
  return torch::cat({value * known, 1 - time.narrow(1, kTimeKnown, 1)}, 1);
}

torch::Tensor GruModel::pool(const torch::Tensor& packed, const torch::Tensor& last,
                             const Batch& batch) {
  if (config_.pool == TemporalPool::kLast) {
    if (!config_.bidirectional) return last[-1];
    return torch::cat({last[-2], last[-1]}, 1);
  }
  const torch::Tensor frames = pad_packed(packed, batch);  // [B, T, H']
  if (config_.pool == TemporalPool::kMean) return mean_over_frames(frames, batch);
  const torch::Tensor step = torch::arange(frames.size(1)).unsqueeze(0);                  // [1, T]
  const torch::Tensor beyond = (step >= batch.lengths.unsqueeze(1)).to(frames.device());  // [B, T]
  const torch::Tensor scores =
      attention(frames).squeeze(2).masked_fill(beyond, -std::numeric_limits<float>::infinity());
  return scores.softmax(1).unsqueeze(1).bmm(frames).squeeze(1);
}

torch::Tensor pad_packed(const torch::Tensor& x, const Batch& batch) {
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(PackedSequence(x, batch.step_sizes),
                                                                /*batch_first=*/true));
}

torch::Tensor mean_over_frames(const torch::Tensor& padded, const Batch& batch) {
  return padded.sum(1) / batch.lengths.unsqueeze(1).to(padded.device(), padded.scalar_type());
}

}  // namespace coldframe::temporal
