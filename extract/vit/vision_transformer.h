// The Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929) as timm 1.0 builds it. Names
// of parameters are timm's.
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/attention_pool.h"
#include "extract/vit/layers/block.h"
#include "extract/vit/layers/patch_embed.h"
#include "extract/vit/pooling.h"

namespace coldframe::vit {

struct VisionTransformerImpl : torch::nn::Module {
  // Images have sides that are multiples of the patch size. `projected`: features that a CLIP's
  // projection gives, 0 without one.
  VisionTransformerImpl(const Scope& scope, const Architecture& shape, const ImageSize& image_size,
                        std::int64_t projected = 0);

  // The parts of which the others are made, for those who run them one by one.
  torch::Tensor embed(const torch::Tensor& images);  // -> what enters the first block
  AnyBlock& block(std::int64_t index);
  Rotation rotation(std::int64_t index, const torch::Device& device);

  // images [B, 3, H, W] -> the tokens behind each of these blocks, counted from 1 and rising,
  // normalised, [B, tokens, D] (timm's forward_intermediates with norm)
  std::vector<torch::Tensor> forward_layers(const torch::Tensor& images,
                                            const std::vector<std::int64_t>& layers);
  torch::Tensor forward_features(const torch::Tensor& images);  // the last block's
  // -> [B, pooled_features()]; Pooling::kMap with attention_pool only
  torch::Tensor forward_head(const torch::Tensor& tokens, Pooling pooling);
  // Gives the residual stream that enters a block, counted from 0.
  torch::Tensor forward_until(const torch::Tensor& images, std::int64_t before);
  // All of it: [B, 3, H, W] -> [B, features], and behind them what enters options.cut
  torch::Tensor forward(const torch::Tensor& images, const FeatureOptions& options);

  Architecture architecture;
  PatchEmbed patch_embed;
  torch::Tensor cls_token;   // [1, 1, D], undefined without a class token
  torch::Tensor reg_token;   // [1, registers, D], undefined without registers
  torch::Tensor pos_embed;   // [1, (prefix) + patches, D], resampled to the image size
  torch::Tensor rope_freqs;  // timm's rope.freqs: of Rotary::kMixed, [2, depth, heads, d / 2]
  Norm norm_pre{nullptr};    // before the blocks (CLIP, Radford et al. 2021, arXiv:2103.00020)
  torch::nn::ModuleList blocks;
  Norm norm{nullptr};     // before pooling,
  Norm fc_norm{nullptr};  // or behind it
  AttentionPool attn_pool{nullptr};
  Linear projection{nullptr};

 private:
  void make_blocks(const Scope& scope);
  torch::Tensor add_positions(const torch::Tensor& patches);
  // The same as forward_layers(), of what enters block `first`.
  std::vector<torch::Tensor> forward_from(torch::Tensor x, std::int64_t first,
                                          const std::vector<std::int64_t>& layers);

  Grid grid_;                        // of the images' patches
  std::vector<Rotation> rotations_;  // of each block, float32 whatever the weights are
};
TORCH_MODULE(VisionTransformer);

}  // namespace coldframe::vit
