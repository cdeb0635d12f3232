// One transformer block. BlockKind::kPreNorm: x + ls1(attn(norm1(x))), then x + ls2(mlp(norm2(x)));
// kPostNorm, as timm's ResPostBlock and EvaBlockPostNorm: x + norm1(attn(x)), then x +
// norm2(mlp(x)).
#pragma once

#include <functional>

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/attention.h"
#include "extract/vit/layers/layer_scale.h"
#include "extract/vit/layers/mlp.h"
#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

// Applied to what a part's last product gives; empty: nothing.
using OutputDropout = std::function<torch::Tensor(const torch::Tensor&)>;

// The model asks this of a block of any kind. A block is one or two parts, x -> x + …, each of
// which training keeps or computes again by itself.
struct AnyBlock : torch::nn::Module {
  virtual std::size_t parts() const { return 2; }  // attention, then the perceptron
  // [B, tokens, width] -> the same
  virtual torch::Tensor forward_part(std::size_t part, const torch::Tensor& x,
                                     const Rotation& rotation, const OutputDropout& dropout) = 0;
  torch::Tensor forward(const torch::Tensor& x, const Rotation& rotation);
};

struct BlockImpl : AnyBlock {
  BlockImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward_part(std::size_t part, const torch::Tensor& x, const Rotation& rotation,
                             const OutputDropout& dropout) override;

  bool norm_behind;
  Norm norm1, norm2;
  Attention attn;
  Mlp mlp;
  LayerScale ls1{nullptr}, ls2{nullptr};  // empty without layer scale
};
TORCH_MODULE(Block);

}  // namespace coldframe::vit
