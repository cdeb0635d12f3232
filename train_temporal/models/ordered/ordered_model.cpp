#include "train_temporal/models/ordered/ordered_model.h"

#include <torch/nn/utils/rnn.h>
#include <numeric>

namespace coldframe::temporal {
namespace {

using torch::nn::utils::rnn::PackedSequence;

bool uses(const ModelConfig& config, TimeEncoding encoding) {
  return config.time && config.time_encoding == encoding;
}

}  // namespace

std::int64_t ordered_inputs(const ModelConfig& config) {
  return config.hidden + (config.time ? kTimeInputs : 0) +
         (uses(config, TimeEncoding::kTime2Vec) ? kTime2VecInputs : 0);
}

OrderedModel::OrderedModel(const ModelConfig& config) : config_(config), inputs_(*this, config) {
  if (config.time) {
    time_mean = register_buffer("time_mean", torch::zeros({2}));
    time_std = register_buffer("time_std", torch::ones({2}));
  }
  if (uses(config, TimeEncoding::kTime2Vec))
    time2vec = register_module("time2vec", torch::nn::Linear(1, kTime2VecInputs));
}

void OrderedModel::register_head() {
  const std::int64_t width = pooled_width(config_);
  if (config_.pool == TemporalPool::kAttention)
    attention = register_module("attention", torch::nn::Linear(width, 1));
  head = register_module("head", torch::nn::Linear(width, config_.classes));
}

void OrderedModel::set_statistics(const InputStatistics& statistics) {
  inputs_.set_statistics(statistics);
  if (!config_.time) return;
  time_mean.copy_(statistics.time_mean);
  time_std.copy_(statistics.time_std);
}

torch::Tensor OrderedModel::forward(const torch::Tensor& features, const SequenceBatch& batch,
                                    const Dropout& dropout) {
  torch::Tensor x = inputs_(features, batch.row_keys, dropout);         // [N, H]
  if (config_.time) x = torch::cat({x, time_features(batch.time)}, 1);  // [N, I]
  x = encode(x, batch, dropout);                                        // [N, W]
  if (config_.per_frame()) return head(dropout(x, RandomPurpose::kHeadDropout, batch.row_keys));
  x = pool(x, batch);                                                     // [B, W]
  return head(dropout(x, RandomPurpose::kHeadDropout, batch.exam_keys));  // [B, C]
}

torch::Tensor OrderedModel::step(const torch::Tensor& features, const torch::Tensor& time,
                                 std::vector<torch::Tensor>& state) {
  torch::Tensor x = inputs_(features, {}, Dropout());  // [1, H]
  if (config_.time) x = torch::cat({x, time_features(time)}, 1);
  return encode_next(x, time, state);
}

torch::Tensor OrderedModel::encode_next(torch::Tensor x, const torch::Tensor& time,
                                        std::vector<torch::Tensor>& state) {
  return SequenceModel::step(x, time, state);  // throws
}

// Standardised where known, 0 elsewhere; then where the time is unknown; with time2vec its linear
// and its periodic values. [N, 3 or 11]
torch::Tensor OrderedModel::time_features(const torch::Tensor& time) {
  const torch::Tensor value = (time.narrow(1, kLogInterval, 2) - time_mean) / time_std;
  const torch::Tensor known = time.narrow(1, kIntervalKnown, 2);
  std::vector<torch::Tensor> parts = {value * known, 1 - time.narrow(1, kTimeKnown, 1)};
  if (!time2vec.is_empty()) {
    const torch::Tensor phase = time2vec(value.narrow(1, 1, 1));  // [N, 8]
    const torch::Tensor periodic = phase.narrow(1, 1, kTime2VecInputs - 1).sin();
    parts.push_back(torch::cat({phase.narrow(1, 0, 1), periodic}, 1) *
                    time.narrow(1, kTimeKnown, 1));
  }
  return torch::cat(parts, 1);
}

// The last state of a layer that reads backwards is that of the first frame.
torch::Tensor OrderedModel::pool(const torch::Tensor& states, const SequenceBatch& batch) {
  if (config_.pool == TemporalPool::kLast) {
    const std::vector<std::int64_t> first = first_rows(batch);
    std::vector<std::int64_t> rows;
    for (std::size_t exam = 0; exam < batch.frames.size(); ++exam) {
      rows.push_back(first[static_cast<std::size_t>(batch.frames[exam]) - 1] +
                     static_cast<std::int64_t>(exam));
    }
    const torch::Tensor last =
        states.index_select(0, torch::tensor(rows, torch::kInt64).to(states.device()));
    const std::int64_t hidden = config_.hidden;
    if (states.size(1) == hidden) return last;
    return torch::cat(
        {last.narrow(1, 0, hidden), states.narrow(0, 0, batch.size()).narrow(1, hidden, hidden)},
        1);
  }
  const torch::Tensor frames = pad_packed(states, batch);  // [B, T, W]
  if (config_.pool == TemporalPool::kMean) return mean_over_frames(frames, batch);
  return attention_over_frames(frames, attention(frames), batch);
}

torch::Tensor pad_packed(const torch::Tensor& x, const SequenceBatch& batch) {
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(PackedSequence(x, batch.step_sizes),
                                                                /*batch_first=*/true));
}

torch::Tensor mean_over_frames(const torch::Tensor& padded, const SequenceBatch& batch) {
  return padded.sum(1) / batch.lengths.unsqueeze(1).to(padded.device(), padded.scalar_type());
}

torch::Tensor attention_over_frames(const torch::Tensor& padded, const torch::Tensor& scores,
                                    const SequenceBatch& batch) {
  const torch::Tensor step = torch::arange(padded.size(1)).unsqueeze(0);                  // [1, T]
  const torch::Tensor beyond = (step >= batch.lengths.unsqueeze(1)).to(padded.device());  // [B, T]
  const torch::Tensor masked =
      scores.squeeze(2).masked_fill(beyond, -std::numeric_limits<float>::infinity());
  return masked.softmax(1).unsqueeze(1).bmm(padded).squeeze(1);
}

std::vector<std::int64_t> first_rows(const SequenceBatch& batch) {
  std::vector<std::int64_t> rows(batch.sequences.size() + 1);
  std::partial_sum(batch.sequences.begin(), batch.sequences.end(), rows.begin() + 1);
  return rows;
}

}  // namespace coldframe::temporal
