// Multi-head self-attention (Vaswani et al. 2017), softmax(q·kᵀ / √d) · v in each head; as timm's
// layers/attention.py, and eva.py and beit.py, have it.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"
#include "extract/vit/layers/norm.h"
#include "extract/vit/positions/rotary.h"

namespace coldframe::vit {

struct AttentionImpl : torch::nn::Module {
  AttentionImpl(const Scope& scope, const Architecture& architecture);
  // [B, tokens, width] -> the same
  torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation = {});

  std::int64_t heads, grid;  // patches along the side of the images of relative positions
  Linear qkv, proj;
  Norm q_norm{nullptr}, k_norm{nullptr};  // with qk_norm (Dehghani et al. 2023, arXiv:2302.05442)
  Norm norm{nullptr};  // with attention_norm (sub-LN, Wang et al. 2022, arXiv:2210.06423)
  torch::Tensor relative_position_bias_table;  // with relative_positions
  torch::Tensor relative;                      // [heads, tokens, tokens], made of the table
};
TORCH_MODULE(Attention);

}  // namespace coldframe::vit
