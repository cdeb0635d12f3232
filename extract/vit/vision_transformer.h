// The Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) as timm 1.0 builds it. Names
// of parameters are timm's.
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/backbone.h"
#include "extract/vit/layers/block.h"
#include "extract/vit/layers/patch_embed.h"

namespace coldframe::vit {

struct VisionTransformerImpl : torch::nn::Module {
  // Images have image_size × image_size pixels, a multiple of the patch size.
  VisionTransformerImpl(const Scope& scope, const Architecture& shape, std::int64_t image_size);

  torch::Tensor forward_features(const torch::Tensor& images);  // [B, 3, S, S] -> [B, tokens, D]
  torch::Tensor forward_head(const torch::Tensor& tokens, Pooling pooling);  // -> [B, D or 2·D]

  Architecture architecture;
  PatchEmbed patch_embed;
  torch::Tensor cls_token;  // [1, 1, D], undefined without a class token
  torch::Tensor reg_token;  // [1, registers, D], undefined without registers
  torch::Tensor pos_embed;  // [1, (prefix) + patches, D], resampled to the image size
  torch::nn::ModuleList blocks;
  LayerNorm norm{nullptr};     // before pooling,
  LayerNorm fc_norm{nullptr};  // or behind it

 private:
  torch::Tensor add_positions(const torch::Tensor& patches);
};
TORCH_MODULE(VisionTransformer);

}  // namespace coldframe::vit
