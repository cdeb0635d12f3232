#include "train_temporal/models/gru_model.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/utils/rnn.h>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

using torch::nn::utils::rnn::PackedSequence;

// One layer on packed rows: its states [N, H'] and its final states [dirs, B, H].
struct Layer {
  const SequenceBatch& batch;
  at::TensorList weights;
  torch::Tensor start;  // [dirs, B, H] of zeros
  bool lstm, bidirectional, training;

  std::pair<torch::Tensor, torch::Tensor> run(const torch::Tensor& x) const {
    if (x.is_cuda()) return run_on_cuda(x);
    torch::Tensor states, last, cell;
    if (lstm)
      std::tie(states, last, cell) = torch::lstm(x, batch.step_sizes, {start, start}, weights, true,
                                                 1, 0.0, training, bidirectional);
    else
      std::tie(states, last) =
          torch::gru(x, batch.step_sizes, start, weights, true, 1, 0.0, training, bidirectional);
    return {states, last};
  }

  // LibTorch's own entry looks for weights in cuDNN's order at the start of their storage, which is
  // the optimizer's and holds other parameters there: it would copy them, with a warning, at every
  // step (aten/src/ATen/native/cudnn/RNN.cpp, try_get_weight_buf). So they are copied here. In
  // autocast it would compute in float16 whatever the type asked for (aten/src/ATen/cudnn/
  // AutocastRNN.cpp), in which gradients need a loss scale: recurrence stays in float32.
  std::pair<torch::Tensor, torch::Tensor> run_on_cuda(const torch::Tensor& x) const {
    constexpr std::int64_t kLstmMode = 2, kGruMode = 3;  // cudnnRNNMode_t
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const torch::Tensor input = x.to(torch::kFloat), first = start.to(torch::kFloat);
    const auto each = static_cast<std::int64_t>(weights.size()) / (bidirectional ? 2 : 1);
    const std::int64_t mode = lstm ? kLstmMode : kGruMode, hidden = first.size(2);
    torch::Tensor in_order;
    {
      const torch::NoGradGuard no_grad;
      std::vector<torch::Tensor> aliases;  // which the call makes views of its result
      for (const torch::Tensor& weight : weights) aliases.push_back(weight.detach());
      in_order = at::_cudnn_rnn_flatten_weight(aliases, each, input.size(1), mode, hidden, 0, 1,
                                               false, bidirectional);
    }
    const auto results = at::_cudnn_rnn(
        input, weights, each, in_order, first, lstm ? std::optional(first) : std::nullopt, mode,
        hidden, 0, 1, false, 0.0, training, bidirectional, batch.sequences, std::nullopt);
    return {std::get<0>(results), std::get<1>(results)};
  }
};

}  // namespace

GruModel::GruModel(const ModelConfig& config) : config_(config) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t width = pooled_width(config);
  feature_mean = register_buffer("feature_mean", torch::zeros({config.dimension}));
  feature_std = register_buffer("feature_std", torch::ones({config.dimension}));
  if (config.time) {
    time_mean = register_buffer("time_mean", torch::zeros({2}));
    time_std = register_buffer("time_std", torch::ones({2}));
  }
  project = register_module("project", torch::nn::Linear(config.dimension, hidden));
  const auto uses = [&](TimeEncoding encoding) {
    return config.time && config.time_encoding == encoding;
  };
  std::int64_t inputs = hidden + (config.time ? kTimeInputs : 0);
  if (uses(TimeEncoding::kTime2Vec)) {
    inputs += kTime2VecInputs;
    time2vec = register_module("time2vec", torch::nn::Linear(1, kTime2VecInputs));
  }
  for (std::int64_t layer = 0; uses(TimeEncoding::kDecay) && layer < config.layers; ++layer) {
    decay.push_back(register_module(concat("decay_l", layer), torch::nn::Linear(1, hidden)));
  }
  if (config.architecture == ModelKind::kLstm) {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(inputs, hidden)
                                                       .num_layers(config.layers)
                                                       .bidirectional(config.bidirectional)));
  } else {
    gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(inputs, hidden)
                                                    .num_layers(config.layers)
                                                    .bidirectional(config.bidirectional)));
  }
  if (config.pool == TemporalPool::kAttention) {
    attention = register_module("attention", torch::nn::Linear(width, 1));
  }
  head = register_module("head", torch::nn::Linear(width, config.classes));
}

void GruModel::set_statistics(const InputStatistics& statistics) {
  feature_mean.copy_(statistics.feature_mean);
  feature_std.copy_(statistics.feature_std);
  if (config_.blank) feature_std.fill_(kBlankDeviation);
  if (!config_.time) return;
  time_mean.copy_(statistics.time_mean);
  time_std.copy_(statistics.time_std);
}

torch::Tensor GruModel::forward(const torch::Tensor& features, const SequenceBatch& batch,
                                const Dropout& dropout) {
  torch::Tensor x = (features - feature_mean) / feature_std;  // [N, D]
  if (!config_.blank) dropout.add_noise(batch.row_keys, x);
  x = project(x);  // [N, H]
  x = dropout(x, Stream::kProjectionDropout, batch.row_keys);
  if (config_.time) x = torch::cat({x, time_features(batch.time)}, 1);  // [N, H + 3]
  const auto [states, last] = recur(x, batch, dropout);
  if (config_.per_frame()) return head(dropout(states, Stream::kHeadDropout, batch.row_keys));
  x = pool(states, last, batch);                                   // [B, H']
  return head(dropout(x, Stream::kHeadDropout, batch.exam_keys));  // [B, C]
}

std::pair<torch::Tensor, torch::Tensor> GruModel::recur(torch::Tensor x, const SequenceBatch& batch,
                                                        const Dropout& dropout) {
  const std::int64_t directions = config_.bidirectional ? 2 : 1;
  const std::vector<torch::Tensor> all = lstm.is_empty() ? gru->all_weights() : lstm->all_weights();
  const std::size_t each = all.size() / static_cast<std::size_t>(config_.layers);
  torch::Tensor last;
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto weights = at::TensorList(all).slice(static_cast<std::size_t>(layer) * each, each);
    if (layer > 0) x = dropout(x, layer_dropout(layer - 1), batch.row_keys);
    if (!decay.empty()) {
      std::tie(x, last) = decaying_layer(x, batch, weights, decay[static_cast<std::size_t>(layer)]);
      continue;
    }
    const torch::Tensor start =
        torch::zeros({directions, batch.size(), config_.hidden}, x.options());
    const Layer one{batch, weights, start, !lstm.is_empty(), config_.bidirectional, is_training()};
    std::tie(x, last) = one.run(x);
  }
  return {x, last};
}

// Intervals are counted in the geometric mean of the training part's; one that is unknown is 0.
torch::Tensor GruModel::decay_factors(const torch::Tensor& time, torch::nn::Linear& rate) {
  const torch::Tensor interval =
      (time.narrow(1, kLogInterval, 1) - time_mean.narrow(0, 0, 1)).exp() *
      time.narrow(1, kIntervalKnown, 1);        // [N, 1]
  return (-torch::relu(rate(interval))).exp();  // [N, H]
}

std::pair<torch::Tensor, torch::Tensor> GruModel::decaying_layer(const torch::Tensor& x,
                                                                 const SequenceBatch& batch,
                                                                 at::TensorList weights,
                                                                 torch::nn::Linear& rate) {
  const torch::Tensor gamma = decay_factors(batch.time, rate);  // [N, H]
  torch::Tensor state = torch::zeros({batch.size(), config_.hidden}, x.options());
  std::vector<torch::Tensor> states;
  std::int64_t row = 0;
  for (const std::int64_t size : batch.sequences) {
    const torch::Tensor before = state.narrow(0, 0, size) * gamma.narrow(0, row, size);
    states.push_back(torch::gru_cell(x.narrow(0, row, size), before, weights[0], weights[1],
                                     weights[2], weights[3]));
    // A sequence that has ended keeps its state.
    state = torch::cat({states.back(), state.narrow(0, size, batch.size() - size)});
    row += size;
  }
  return {torch::cat(states), state.unsqueeze(0)};
}

torch::Tensor GruModel::step(const torch::Tensor& features, const torch::Tensor& time,
                             std::vector<torch::Tensor>& state) {
  torch::Tensor x = project((features - feature_mean) / feature_std);  // [1, H]
  if (config_.time) x = torch::cat({x, time_features(time)}, 1);
  const bool is_lstm = !lstm.is_empty();
  const std::vector<torch::Tensor> all = is_lstm ? lstm->all_weights() : gru->all_weights();
  const auto layers = static_cast<std::size_t>(config_.layers);
  const std::size_t each = is_lstm ? 2 : 1;  // hidden state, and the LSTM's cell
  if (state.empty()) state.assign(layers * each, torch::zeros({1, config_.hidden}, x.options()));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const torch::Tensor* w = &all[4 * layer];
    torch::Tensor& hidden = state[layer * each];
    if (is_lstm) {
      torch::Tensor& cell = state[layer * each + 1];
      std::tie(hidden, cell) = torch::lstm_cell(x, {hidden, cell}, w[0], w[1], w[2], w[3]);
    } else {
      if (!decay.empty()) hidden = hidden * decay_factors(time, decay[layer]);
      hidden = torch::gru_cell(x, hidden, w[0], w[1], w[2], w[3]);
    }
    x = hidden;
  }
  return x;
}

// Standardised where known, 0 elsewhere; then where the time is unknown; with time2vec its linear
// and its periodic values. [N, 3 or 11]
torch::Tensor GruModel::time_features(const torch::Tensor& time) {
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

torch::Tensor GruModel::pool(const torch::Tensor& packed, const torch::Tensor& last,
                             const SequenceBatch& batch) {
  if (config_.pool == TemporalPool::kLast) {
    if (!config_.bidirectional) return last[-1];
    return torch::cat({last[-2], last[-1]}, 1);
  }
  const torch::Tensor frames = pad_packed(packed, batch);  // [B, T, H']
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

}  // namespace coldframe::temporal
