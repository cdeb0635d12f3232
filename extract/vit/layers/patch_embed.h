// Cuts an image into patches and maps each to a token.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"
#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

// timm has a convolution whose stride is its kernel size; its weights keep that shape here.
struct PatchProjectionImpl : torch::nn::Module {
  PatchProjectionImpl(const Scope& scope, const Architecture& architecture);

  torch::Tensor weight;  // [width, 3, patch, patch]
  torch::Tensor bias;    // [width], undefined without patch_bias
};
TORCH_MODULE(PatchProjection);

struct PatchEmbedImpl : torch::nn::Module {
  PatchEmbedImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& images);  // [B, 3, H, W] -> [B, patches, width]

  std::int64_t patch;
  PatchProjection proj;
  Norm norm{nullptr};  // with patch_norm (AIMv2, arXiv:2411.14402)
};
TORCH_MODULE(PatchEmbed);

}  // namespace coldframe::vit
