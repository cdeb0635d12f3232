// One transformer block. BlockKind::kPreNorm: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x)));
// kPostNorm, as timm's ResPostBlock and EvaBlockPostNorm: x + norm1(attn(x)), then x +
// norm2(mlp(x)).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/attention.h"
#include "extract/vit/layers/layer_scale.h"
#include "extract/vit/layers/mlp.h"
#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

// What the model asks of a block of any kind.
struct AnyBlock : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation) = 0;
};

struct BlockImpl : AnyBlock {
  BlockImpl(const Scope& scope, const Architecture& architecture);
  // [B, tokens, width] -> the same
  torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation) override;

  bool norm_behind;
  Norm norm1, norm2;
  Attention attn;
  Mlp mlp;
  LayerScale ls1{nullptr}, ls2{nullptr};  // empty without layer scale
};
TORCH_MODULE(Block);

}  // namespace coldframe::vit
