// One transformer block, pre-norm: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x))).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/attention.h"
#include "extract/vit/layers/layer_norm.h"
#include "extract/vit/layers/layer_scale.h"
#include "extract/vit/layers/mlp.h"

namespace coldframe::vit {

struct BlockImpl : torch::nn::Module {
  BlockImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& x);  // [B, tokens, width] -> the same

  LayerNorm norm1, norm2;
  Attention attn;
  Mlp mlp;
  LayerScale ls1{nullptr}, ls2{nullptr};  // empty without layer scale
};
TORCH_MODULE(Block);

}  // namespace coldframe::vit
