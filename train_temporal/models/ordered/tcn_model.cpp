#include "train_temporal/models/ordered/tcn_model.h"

#include <string>

namespace coldframe::temporal {
namespace {

// For each packed row that of the frame `back` before it in its exam, counted from 1; 0: none.
torch::Tensor rows_before(const SequenceBatch& batch, std::int64_t back) {
  const std::vector<std::int64_t> first = first_rows(batch);
  std::vector<std::int64_t> rows;
  for (std::size_t step = 0; step < batch.sequences.size(); ++step) {
    const bool begun = static_cast<std::int64_t>(step) >= back;
    for (std::int64_t exam = 0; exam < batch.sequences[step]; ++exam) {
      rows.push_back(begun ? first[step - static_cast<std::size_t>(back)] + exam + 1 : 0);
    }
  }
  return torch::tensor(rows, torch::kInt64);
}

// The rows that each tap but the last one reads, the farthest first.
std::vector<torch::Tensor> taps_of(const SequenceBatch& batch, std::int64_t layer,
                                   const torch::Device& device) {
  std::vector<torch::Tensor> taps;
  for (std::int64_t back = kTcnTaps - 1; back > 0; --back)
    taps.push_back(rows_before(batch, back * tcn_dilation(layer)).to(device));
  return taps;
}

// seen: [N, 3 C], the inputs of all taps, the farthest first.
torch::Tensor convolved(const torch::Tensor& seen, const torch::nn::Conv1d& layer) {
  const torch::Tensor& weight = layer->weight;  // [H, C, 3]
  return torch::gelu(at::linear(seen, weight.transpose(1, 2).flatten(1), layer->bias));
}

torch::Tensor over_frames(const torch::Tensor& x, const torch::nn::Conv1d& layer,
                          const std::vector<torch::Tensor>& taps) {
  const torch::Tensor from_one = torch::cat({x.new_zeros({1, x.size(1)}), x});
  std::vector<torch::Tensor> seen;
  for (const torch::Tensor& rows : taps) seen.push_back(from_one.index_select(0, rows));
  seen.push_back(x);
  return convolved(torch::cat(seen, 1), layer);
}

torch::Tensor over_next(const torch::Tensor& x, const torch::nn::Conv1d& layer,
                        torch::Tensor& before, std::int64_t dilation) {
  const torch::Tensor frames = torch::cat({before, x});  // [reach + 1, C]
  before = frames.narrow(0, 1, before.size(0));
  return convolved(frames.slice(0, 0, std::nullopt, dilation).reshape({1, -1}), layer);
}

torch::Tensor passed_by(const torch::Tensor& x, const torch::nn::Conv1d& downsample) {
  return downsample.is_empty() ? x : at::linear(x, downsample->weight.squeeze(2), downsample->bias);
}

}  // namespace

// The last frame of three blocks sees 28 before it; sixteen reach back 262140 frames.
const Architecture kTcn{.name = "tcn",
                        .make = make<TcnModel>,
                        .ordered = true,
                        .layers = 3,
                        .most_layers = 16,
                        .kept = {6.5, 11, 0, 10.2}};

TcnModel::TcnModel(const ModelConfig& config) : OrderedModel(config) {
  const std::int64_t hidden = config.hidden;
  auto list = register_module("tcn", std::make_shared<torch::nn::Module>());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::int64_t inputs = layer == 0 ? ordered_inputs(config) : hidden;
    auto names =
        list->register_module(std::to_string(layer), std::make_shared<torch::nn::Module>());
    const auto convolution = [&](const char* name, std::int64_t from, std::int64_t taps) {
      return names->register_module(name, torch::nn::Conv1d(from, hidden, taps));
    };
    Block& block = blocks_.emplace_back();
    block.conv1 = convolution("conv1", inputs, kTcnTaps);
    block.conv2 = convolution("conv2", hidden, kTcnTaps);
    if (inputs != hidden) block.downsample = convolution("downsample", inputs, 1);
  }
  register_head();
}

torch::Tensor TcnModel::encode(torch::Tensor x, const SequenceBatch& batch,
                               const Dropout& dropout) {
  std::int64_t layer = 0;
  for (const auto& [conv1, conv2, downsample] : blocks_) {
    const std::vector<torch::Tensor> taps = taps_of(batch, layer, x.device());
    torch::Tensor y =
        dropout(over_frames(x, conv1, taps), layer_dropout(2 * layer), batch.row_keys);
    y = dropout(over_frames(y, conv2, taps), layer_dropout(2 * layer + 1), batch.row_keys);
    x = torch::gelu(passed_by(x, downsample) + y);
    ++layer;
  }
  return x;
}

torch::Tensor TcnModel::encode_next(torch::Tensor x, const torch::Tensor&,
                                    std::vector<torch::Tensor>& state) {
  state.resize(2 * blocks_.size());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const auto& [conv1, conv2, downsample] = blocks_[layer];
    const std::int64_t dilation = tcn_dilation(static_cast<std::int64_t>(layer));
    torch::Tensor y = x;
    for (const auto* conv : {&conv1, &conv2}) {
      torch::Tensor& before = state[2 * layer + (conv == &conv2)];
      if (!before.defined()) before = y.new_zeros({(kTcnTaps - 1) * dilation, y.size(1)});
      y = over_next(y, *conv, before, dilation);
    }
    x = torch::gelu(passed_by(x, downsample) + y);
  }
  return x;
}

}  // namespace coldframe::temporal
