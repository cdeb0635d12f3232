#include "train_temporal/models/ordered/transformer_model.h"

#include <cmath>
#include <string>

namespace coldframe::temporal {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// x: [N, 2, h, d], queries and keys
torch::Tensor turned(const torch::Tensor& x, const FrameGrid& grid) {
  const std::int64_t half = grid.cosine.size(-1);
  const torch::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return torch::cat({a * grid.cosine - b * grid.sine, b * grid.cosine + a * grid.sine}, -1);
}

}  // namespace

const Architecture kTransformer{
    .name = "transformer",
    .make = make<TransformerModel>,
    .ordered = true,
    .even_width = true,
    .layers = 2,
    .needs_whole_sequence = "what it makes of a frame depends on the frames behind it",
    .kept = {7.5, 10.6, 4, 8, 5.5}};

std::int64_t attention_heads(std::int64_t hidden) {
  for (std::int64_t heads = hidden / kHeadWidth; heads > 1; --heads) {
    if (hidden % (2 * heads) == 0) return heads;
  }
  return 1;
}

torch::Tensor rotary_speeds(std::int64_t hidden) {
  const std::int64_t width = hidden / attention_heads(hidden);
  return torch::pow(kRotaryBase,
                    -2.0 * torch::arange(width / 2, torch::kFloat64) / static_cast<double>(width));
}

FrameGrid::FrameGrid(const SequenceBatch& batch, const torch::Device& device)
    : exams(batch.size()), steps(static_cast<std::int64_t>(batch.sequences.size())) {
  const std::vector<std::int64_t> first = first_rows(batch);
  std::vector<std::int64_t> grid(static_cast<std::size_t>(exams * steps)), rows;
  for (std::size_t step = 0; step < batch.sequences.size(); ++step) {
    for (std::int64_t exam = 0; exam < batch.sequences[step]; ++exam) {
      rows.push_back(exam * steps + static_cast<std::int64_t>(step));
      grid[static_cast<std::size_t>(rows.back())] = first[step] + exam;
    }
  }
  to_grid = torch::tensor(grid, torch::kInt64).to(device);
  to_rows = torch::tensor(rows, torch::kInt64).to(device);
  if (rows.size() == grid.size()) return;
  mask = (torch::arange(steps).unsqueeze(0) < batch.lengths.unsqueeze(1))
             .view({exams, 1, 1, steps})
             .to(device);
}

SelfAttention::SelfAttention(std::int64_t hidden) : heads_(attention_heads(hidden)) {
  in_proj_weight = register_parameter("in_proj_weight", torch::empty({3 * hidden, hidden}));
  in_proj_bias = register_parameter("in_proj_bias", torch::empty({3 * hidden}));
  out_proj = register_module("out_proj", torch::nn::Linear(hidden, hidden));
}

torch::Tensor SelfAttention::forward(const torch::Tensor& x, const FrameGrid& grid) {
  const std::int64_t width = x.size(1) / heads_;
  const torch::Tensor all =
      at::linear(x, in_proj_weight, in_proj_bias).view({-1, 3, heads_, width});
  const auto qkv = torch::cat({turned(all.narrow(1, 0, 2), grid), all.narrow(1, 2, 1)}, 1)
                       .index_select(0, grid.to_grid)
                       .view({grid.exams, grid.steps, 3, heads_, width})
                       .permute({2, 0, 3, 1, 4})
                       .unbind();  // of [3, B, h, T, d]
  const torch::Tensor attended = at::scaled_dot_product_attention(
      qkv[0], qkv[1], qkv[2],
      grid.mask.defined() ? std::optional(grid.mask) : std::nullopt);  // [B, h, T, d]
  return out_proj(attended.transpose(1, 2).reshape({-1, x.size(1)}).index_select(0, grid.to_rows));
}

EncoderLayer::EncoderLayer(std::int64_t hidden) {
  self_attn = register_module("self_attn", std::make_shared<SelfAttention>(hidden));
  linear1 = register_module("linear1", torch::nn::Linear(hidden, 2 * hidden));
  linear2 = register_module("linear2", torch::nn::Linear(2 * hidden, hidden));
  norm1 = register_module("norm1", layer_norm(hidden));
  norm2 = register_module("norm2", layer_norm(hidden));
}

torch::Tensor EncoderLayer::forward(torch::Tensor x, const FrameGrid& grid, const Dropout& dropout,
                                    std::span<const std::uint64_t> keys, std::int64_t layer) {
  x = x + dropout(self_attn->forward(norm1(x), grid), layer_dropout(2 * layer), keys);
  return x + dropout(linear2(torch::gelu(linear1(norm2(x)))), layer_dropout(2 * layer + 1), keys);
}

TransformerModel::TransformerModel(const ModelConfig& config) : OrderedModel(config) {
  const std::int64_t hidden = config.hidden, beside = ordered_inputs(config) - hidden;
  if (beside > 0) time = register_module("time", torch::nn::Linear(beside, hidden));
  auto encoder = register_module("transformer", std::make_shared<torch::nn::Module>());
  auto list = encoder->register_module("layers", std::make_shared<torch::nn::Module>());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    layers_.push_back(
        list->register_module(std::to_string(layer), std::make_shared<EncoderLayer>(hidden)));
  }
  norm = encoder->register_module("norm", layer_norm(hidden));
  register_head();
}

torch::Tensor TransformerModel::places(const SequenceBatch& batch) const {
  const double unit = config_.time ? time_mean[0].item<double>() : 0;  // a logarithm
  const std::vector<std::int64_t> first = first_rows(batch);
  std::vector<double> place(batch.times.size());
  for (std::size_t step = 1; step < batch.sequences.size(); ++step) {
    const auto row = static_cast<std::size_t>(first[step]);
    const auto before = static_cast<std::size_t>(first[step - 1]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.sequences[step]); ++i) {
      const auto& frame = batch.times[row + i];
      const bool known = config_.time && frame[kIntervalKnown] > 0;
      place[row + i] = place[before + i] + (known ? std::exp(frame[kLogInterval] - unit) : 1.0);
    }
  }
  return torch::tensor(place, torch::kFloat64);
}

torch::Tensor TransformerModel::encode(torch::Tensor x, const SequenceBatch& batch,
                                       const Dropout& dropout) {
  if (!time.is_empty()) {
    const std::int64_t beside = x.size(1) - config_.hidden;
    x = x.narrow(1, 0, config_.hidden) + time(x.narrow(1, config_.hidden, beside));
  }
  FrameGrid grid(batch, x.device());
  const torch::Tensor angle =
      (places(batch).unsqueeze(1) * rotary_speeds(config_.hidden)).unsqueeze(1).unsqueeze(1);
  grid.cosine = angle.cos().to(x.device(), torch::kFloat32);  // [N, 1, 1, d / 2]
  grid.sine = angle.sin().to(x.device(), torch::kFloat32);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    x = layers_[layer]->forward(x, grid, dropout, batch.row_keys, static_cast<std::int64_t>(layer));
  }
  return norm(x);
}

}  // namespace coldframe::temporal
