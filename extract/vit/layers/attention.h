// Multi-head self-attention (Vaswani et al. 2017), softmax(q·kᵀ / √d) · v in each head.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"

namespace coldframe::vit {

struct AttentionImpl : torch::nn::Module {
  AttentionImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& x);  // [B, tokens, width] -> the same

  std::int64_t heads;
  Linear qkv, proj;
};
TORCH_MODULE(Attention);

}  // namespace coldframe::vit
