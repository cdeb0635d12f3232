#include "train_temporal/models/ordered/gru_model.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// One layer on packed rows: its states [N, W].
struct Layer {
  const SequenceBatch& batch;
  at::TensorList weights;
  torch::Tensor start;  // [dirs, B, H] of zeros
  bool lstm, bidirectional, training;

  torch::Tensor run(const torch::Tensor& x) const {
    if (x.is_cuda()) return run_on_cuda(x);
    if (lstm) {
      return std::get<0>(torch::lstm(x, batch.step_sizes, {start, start}, weights, true, 1, 0.0,
                                     training, bidirectional));
    }
    return std::get<0>(
        torch::gru(x, batch.step_sizes, start, weights, true, 1, 0.0, training, bidirectional));
  }

  // LibTorch's own entry looks for weights in cuDNN's order at the start of their storage, which is
  // the optimizer's and holds other parameters there: it would copy them, with a warning, at every
  // step (aten/src/ATen/native/cudnn/RNN.cpp, try_get_weight_buf). So they are copied here. In
  // autocast it would compute in float16 whatever the type asked for (aten/src/ATen/cudnn/
  // AutocastRNN.cpp), in which gradients need a loss scale: recurrence stays in float32.
  torch::Tensor run_on_cuda(const torch::Tensor& x) const {
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
    return std::get<0>(at::_cudnn_rnn(
        input, weights, each, in_order, first, lstm ? std::optional(first) : std::nullopt, mode,
        hidden, 0, 1, false, 0.0, training, bidirectional, batch.sequences, std::nullopt));
  }
};

}  // namespace

const Architecture kGru{.name = "gru",
                        .make = make<GruModel>,
                        .ordered = true,
                        .recurrent = true,
                        .decays = true,
                        .has_kernels = true,
                        .kept = {4.9, 9},
                        .kept_decaying = {2.2, 12}};
const Architecture kLstm{
    .name = "lstm", .make = make<GruModel>, .ordered = true, .recurrent = true, .kept = {9.3, 7.4}};

GruModel::GruModel(const ModelConfig& config) : OrderedModel(config) {
  const std::int64_t hidden = config.hidden, inputs = ordered_inputs(config);
  const bool decays = config.time && config.time_encoding == TimeEncoding::kDecay;
  for (std::int64_t layer = 0; decays && layer < config.layers; ++layer) {
    decay.push_back(register_module(concat("decay_l", layer), torch::nn::Linear(1, hidden)));
  }
  if (config.architecture == &kLstm) {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(inputs, hidden)
                                                       .num_layers(config.layers)
                                                       .bidirectional(config.bidirectional)));
  } else {
    gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(inputs, hidden)
                                                    .num_layers(config.layers)
                                                    .bidirectional(config.bidirectional)));
  }
  register_head();
}

torch::Tensor GruModel::encode(torch::Tensor x, const SequenceBatch& batch,
                               const Dropout& dropout) {
  const std::int64_t directions = config_.bidirectional ? 2 : 1;
  const std::vector<torch::Tensor> all = lstm.is_empty() ? gru->all_weights() : lstm->all_weights();
  const std::size_t each = all.size() / static_cast<std::size_t>(config_.layers);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const auto weights = at::TensorList(all).slice(static_cast<std::size_t>(layer) * each, each);
    if (layer > 0) x = dropout(x, layer_dropout(layer - 1), batch.row_keys);
    if (!decay.empty()) {
      x = decaying_layer(x, batch, weights, decay[static_cast<std::size_t>(layer)]);
      continue;
    }
    const torch::Tensor start =
        torch::zeros({directions, batch.size(), config_.hidden}, x.options());
    const Layer one{batch, weights, start, !lstm.is_empty(), config_.bidirectional, is_training()};
    x = one.run(x);
  }
  return x;
}

// Intervals are counted in the geometric mean of the training part's; one that is unknown is 0.
torch::Tensor GruModel::decay_factors(const torch::Tensor& time, torch::nn::Linear& rate) {
  const torch::Tensor interval =
      (time.narrow(1, kLogInterval, 1) - time_mean.narrow(0, 0, 1)).exp() *
      time.narrow(1, kIntervalKnown, 1);        // [N, 1]
  return (-torch::relu(rate(interval))).exp();  // [N, H]
}

torch::Tensor GruModel::decaying_layer(const torch::Tensor& x, const SequenceBatch& batch,
                                       at::TensorList weights, torch::nn::Linear& rate) {
  const torch::Tensor gamma = decay_factors(batch.time, rate);  // [N, H]
  torch::Tensor state = torch::zeros({batch.size(), config_.hidden}, x.options());
  std::vector<torch::Tensor> states;
  std::int64_t row = 0;
  for (const std::int64_t size : batch.sequences) {
    const torch::Tensor before = state.narrow(0, 0, size) * gamma.narrow(0, row, size);
    state = torch::gru_cell(x.narrow(0, row, size), before, weights[0], weights[1], weights[2],
                            weights[3]);
    states.push_back(state);
    row += size;
  }
  return torch::cat(states);
}

torch::Tensor GruModel::encode_next(torch::Tensor x, const torch::Tensor& time,
                                    std::vector<torch::Tensor>& state) {
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

}  // namespace coldframe::temporal
