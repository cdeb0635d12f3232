#include "extract/vit/layers/patch_embed.h"

namespace coldframe::vit {

PatchProjectionImpl::PatchProjectionImpl(const Scope& scope, const Architecture& shape) {
  weight = register_parameter(
      "weight", scope.take("weight", {shape.width, 3, shape.patch, shape.patch}), false);
  if (shape.patch_bias) bias = register_parameter("bias", scope.take("bias", {shape.width}), false);
}

PatchEmbedImpl::PatchEmbedImpl(const Scope& scope, const Architecture& architecture)
    : patch(architecture.patch), proj(scope / "proj", architecture) {
  register_module("proj", proj);
  if (architecture.patch_norm)
    norm = register_module("norm", Norm(scope / "norm", architecture.width, architecture));
}

// A matrix product stands in for the convolution: it shares apply_linear, and on CUDA it keeps
// clear of cuDNN, whose convolutions round float32 to TF32 by default.
torch::Tensor PatchEmbedImpl::forward(const torch::Tensor& images) {
  const std::int64_t batch = images.size(0);
  const std::int64_t rows = images.size(2) / patch, columns = images.size(3) / patch;
  const torch::Tensor patches =
      images.view({batch, 3, rows, patch, columns, patch})
          .permute({0, 2, 4, 1, 3, 5})  // [B, rows, columns, 3, patch, patch]
          .reshape({batch, rows * columns, 3 * patch * patch});
  const torch::Tensor tokens = apply_linear(patches, proj->weight.flatten(1), proj->bias);
  return norm ? norm->forward(tokens) : tokens;
}

}  // namespace coldframe::vit
