#include "extract/vit/layers/block.h"

namespace coldframe::vit {

BlockImpl::BlockImpl(const Scope& scope, const Architecture& architecture)
    : norm_behind(architecture.block == BlockKind::kPostNorm),
      norm1(scope / "norm1", architecture.width, architecture),
      norm2(scope / "norm2", architecture.width, architecture),
      attn(scope / "attn", architecture),
      mlp(scope / "mlp", architecture) {
  register_module("norm1", norm1);
  register_module("attn", attn);
  register_module("norm2", norm2);
  register_module("mlp", mlp);
  if (!architecture.layer_scale) return;
  ls1 = register_module("ls1", LayerScale(scope / "ls1", architecture.width));
  ls2 = register_module("ls2", LayerScale(scope / "ls2", architecture.width));
}

torch::Tensor AnyBlock::forward(const torch::Tensor& x, const Rotation& rotation) {
  torch::Tensor result = x;
  for (std::size_t part = 0; part < parts(); ++part)
    result = forward_part(part, result, rotation, {});
  return result;
}

torch::Tensor BlockImpl::forward_part(std::size_t part, const torch::Tensor& x,
                                      const Rotation& rotation, const OutputDropout& dropout) {
  const bool attention = part == 0;
  Norm& norm = attention ? norm1 : norm2;
  LayerScale& scale = attention ? ls1 : ls2;
  const torch::Tensor input = norm_behind ? x : norm->forward(x);
  torch::Tensor added = attention ? attn->forward(input, rotation) : mlp->forward(input);
  if (dropout) added = dropout(added);
  if (norm_behind) return x + norm->forward(added);
  return x + (scale ? scale->forward(added) : added);
}

}  // namespace coldframe::vit
