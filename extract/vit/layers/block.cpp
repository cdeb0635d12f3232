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

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const Rotation& rotation) {
  if (norm_behind) {
    const torch::Tensor middle = x + norm1->forward(attn->forward(x, rotation));
    return middle + norm2->forward(mlp->forward(middle));
  }
  const torch::Tensor attended = attn->forward(norm1->forward(x), rotation);
  const torch::Tensor middle = x + (ls1 ? ls1->forward(attended) : attended);
  const torch::Tensor mixed = mlp->forward(norm2->forward(middle));
  return middle + (ls2 ? ls2->forward(mixed) : mixed);
}

}  // namespace coldframe::vit
