// Attention pooling, SigLIP's MAP head: one learnt query attends to all tokens, and a perceptron
// follows (Zhai et al. 2022, arXiv:2106.04560; timm's AttentionPoolLatent in
// layers/attention_pool.py).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"
#include "extract/vit/layers/mlp.h"
#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

struct AttentionPoolImpl : torch::nn::Module {
  AttentionPoolImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& tokens);  // [B, tokens, width] -> [B, width]

  std::int64_t heads;
  torch::Tensor latent;  // [1, 1, width]
  Linear q, kv, proj;
  Norm norm;
  Mlp mlp;
};
TORCH_MODULE(AttentionPool);

}  // namespace coldframe::vit
