// A transformer encoder over frames (Vaswani et al. 2017) with the norms first (Xiong et al. 2020).
// Each frame attends to all of its exam. Its place turns queries and keys (rotary positions, Su et
// al. 2021, arXiv:2104.09864; halves of a head turn together, as in GPT-NeoX), so that attention
// depends on how far apart two frames are: in seconds, counted in the geometric mean interval of
// the training part, or in frames where times are unknown or the model is not told them. Its own
// tensors are torch.nn.TransformerEncoder's, L = 0 …:
//   time.weight [H, I - H], .bias                          with time: what is added for it
//   transformer.layers.L.self_attn.in_proj_weight [3H, H], .in_proj_bias; q, k, v
//   transformer.layers.L.self_attn.out_proj.weight [H, H], .bias
//   transformer.layers.L.linear1.weight [2H, H], .bias     GELU behind it
//   transformer.layers.L.linear2.weight [H, 2H], .bias
//   transformer.layers.L.norm1.weight, .norm2.weight [H], .bias
//   transformer.norm.weight [H], .bias
#pragma once

#include <torch/nn/modules/normalization.h>
#include <memory>
#include <span>
#include <vector>

#include "train_temporal/models/ordered/ordered_model.h"

namespace coldframe::temporal {

inline constexpr std::int64_t kHeadWidth = 16;  // at least, where H can be divided so
inline constexpr double kRotaryBase = 10000;    // of the slowest pair's turn
// The most heads of an even width of kHeadWidth or more; one, where there is no such division.
std::int64_t attention_heads(std::int64_t hidden);
// Radians that one place turns each pair of a head by, [d / 2] float64.
torch::Tensor rotary_speeds(std::int64_t hidden);

// The way from packed rows [N, …] to [B, T, …] and back, and what each row's place turns it by.
struct FrameGrid {
  explicit FrameGrid(const SequenceBatch& batch, const torch::Device& device);

  std::int64_t exams, steps;
  torch::Tensor to_grid;  // [B · T] rows; behind the end of a sequence any row, which `mask` hides
  torch::Tensor to_rows;  // [N]
  torch::Tensor mask;     // [B, 1, 1, T], true for frames; undefined where all are
  torch::Tensor cosine, sine;  // [N, 1, 1, d / 2]
};

class SelfAttention final : public torch::nn::Module {
 public:
  explicit SelfAttention(std::int64_t hidden);
  torch::Tensor forward(const torch::Tensor& x, const FrameGrid& grid);  // [N, H] → [N, H]

 private:
  std::int64_t heads_;
  torch::Tensor in_proj_weight, in_proj_bias;
  torch::nn::Linear out_proj{nullptr};
};

class EncoderLayer final : public torch::nn::Module {
 public:
  explicit EncoderLayer(std::int64_t hidden);
  torch::Tensor forward(torch::Tensor x, const FrameGrid& grid, const Dropout& dropout,
                        std::span<const std::uint64_t> keys, std::int64_t layer);

 private:
  std::shared_ptr<SelfAttention> self_attn;
  torch::nn::Linear linear1{nullptr}, linear2{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
};

extern const Architecture kTransformer;

class TransformerModel final : public OrderedModel {
 public:
  explicit TransformerModel(const ModelConfig& config);

 private:
  torch::Tensor encode(torch::Tensor x, const SequenceBatch& batch,
                       const Dropout& dropout) override;
  // Counts from 0 for the first row of each packed exam. [N] float64
  torch::Tensor places(const SequenceBatch& batch) const;

  torch::nn::Linear time{nullptr};
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  torch::nn::LayerNorm norm{nullptr};
};

}  // namespace coldframe::temporal
