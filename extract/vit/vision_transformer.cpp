#include "extract/vit/vision_transformer.h"

#include "extract/vit/layers/parallel_block.h"
#include "extract/vit/positions/position_embedding.h"

namespace coldframe::vit {

VisionTransformerImpl::VisionTransformerImpl(const Scope& scope, const Architecture& shape,
                                             const ImageSize& image_size, std::int64_t projected)
    : architecture(shape),
      patch_embed(scope / "patch_embed", shape),
      grid_(image_size, shape.patch) {
  const std::int64_t width = shape.width, grid = shape.position_grid;
  register_module("patch_embed", patch_embed);
  if (shape.class_token)
    cls_token = register_parameter("cls_token", scope.take("cls_token", {1, 1, width}), false);
  if (shape.registers > 0)
    reg_token = register_parameter("reg_token",
                                   scope.take("reg_token", {1, shape.registers, width}), false);
  if (shape.positions) {
    const std::int64_t prefix = shape.prefix_positions ? shape.prefix_tokens() : 0;
    torch::Tensor positions = scope.take("pos_embed", {1, prefix + grid * grid, width});
    if (!positions.is_meta())
      positions = resample_positions(positions, prefix, grid, grid_, shape.resampling);
    pos_embed = register_parameter("pos_embed", positions, false);
  }
  if (shape.norm_pre)
    norm_pre = register_module("norm_pre", Norm(scope / "norm_pre", width, shape));
  make_blocks(scope);
  if (shape.norm) norm = register_module("norm", Norm(scope / "norm", width, shape));
  if (shape.fc_norm) fc_norm = register_module("fc_norm", Norm(scope / "fc_norm", width, shape));
  if (shape.attention_pool)
    attn_pool = register_module("attn_pool", AttentionPool(scope / "attn_pool", shape));
  if (projected > 0)
    projection = register_module("projection", Linear(scope / "projection", width, projected));
}

void VisionTransformerImpl::make_blocks(const Scope& scope) {
  const Architecture& shape = architecture;
  if (shape.rotary == Rotary::kMixed)
    rope_freqs = register_parameter(
        "rope_freqs",
        (scope / "rope")
            .take("freqs", {2, shape.depth, shape.heads, shape.width / shape.heads / 2}),
        false);
  for (std::int64_t i = 0; i < shape.depth; ++i) {
    const Scope place = scope / "blocks" / i;
    if (shape.block == BlockKind::kParallelThings)
      blocks->push_back(ParallelThingsBlock(place, shape));
    else if (shape.block == BlockKind::kParallelScaling)
      blocks->push_back(ParallelScalingBlock(place, shape));
    else
      blocks->push_back(Block(place, shape));
  }
  register_module("blocks", blocks);
  if (!rope_freqs.defined() || !rope_freqs.is_meta())
    rotations_ = rotations(shape, grid_, rope_freqs);
}

torch::Tensor VisionTransformerImpl::add_positions(const torch::Tensor& patches) {
  std::vector<torch::Tensor> tokens;
  for (const torch::Tensor& prefix : {cls_token, reg_token})
    if (prefix.defined()) tokens.push_back(prefix.expand({patches.size(0), -1, -1}));
  const bool of_patches = pos_embed.defined() && !architecture.prefix_positions;
  tokens.push_back(of_patches ? patches + pos_embed : patches);
  const torch::Tensor all = torch::cat(tokens, 1);
  return pos_embed.defined() && !of_patches ? all + pos_embed : all;
}

torch::Tensor VisionTransformerImpl::embed(const torch::Tensor& images) {
  const torch::Tensor x = add_positions(patch_embed->forward(images));  // [B, prefix + patches, D]
  return norm_pre ? norm_pre->forward(x) : x;
}

AnyBlock& VisionTransformerImpl::block(std::int64_t index) {
  return dynamic_cast<AnyBlock&>(*blocks[static_cast<std::size_t>(index)]);
}

Rotation VisionTransformerImpl::rotation(std::int64_t index, const torch::Device& device) {
  // Trained frequencies change with every step, and their gradient goes through the rotation.
  if (rope_freqs.defined() && rope_freqs.requires_grad())
    return mixed_rotation(architecture, grid_, rope_freqs, index);
  Rotation& found = rotations_[static_cast<std::size_t>(index)];
  if (found.sine.defined() && found.sine.device() != device) {
    found.sine = found.sine.to(device);
    found.cosine = found.cosine.to(device);
  }
  return found;
}

std::vector<torch::Tensor> VisionTransformerImpl::forward_layers(
    const torch::Tensor& images, const std::vector<std::int64_t>& layers) {
  return forward_from(embed(images), 0, layers);
}

torch::Tensor VisionTransformerImpl::forward_until(const torch::Tensor& images,
                                                   std::int64_t before) {
  torch::Tensor x = embed(images);
  for (std::int64_t i = 0; i < before; ++i) x = block(i).forward(x, rotation(i, x.device()));
  return x;
}

std::vector<torch::Tensor> VisionTransformerImpl::forward_from(
    torch::Tensor x, std::int64_t first, const std::vector<std::int64_t>& layers) {
  std::vector<torch::Tensor> found;
  for (std::int64_t i = first; i < layers.back(); ++i) {
    x = block(i).forward(x, rotation(i, x.device()));
    if (i + 1 == layers[found.size()]) found.push_back(norm ? norm->forward(x) : x);
  }
  return found;
}

torch::Tensor VisionTransformerImpl::forward_features(const torch::Tensor& images) {
  return forward_layers(images, {architecture.depth}).front();
}

torch::Tensor VisionTransformerImpl::forward_head(const torch::Tensor& tokens, Pooling pooling) {
  const std::int64_t prefix = architecture.prefix_tokens();
  if (pooling == Pooling::kMap)
    return attn_pool->forward(architecture.pool_prefix ? tokens : tokens.slice(1, prefix));
  std::vector<torch::Tensor> pooled;  // each [B, D], or all tokens
  if (pooling == Pooling::kNone) pooled = {tokens};
  if (takes_class_token(pooling)) pooled.push_back(tokens.select(1, 0));
  if (const auto range = averaged_tokens(pooling, architecture, tokens.size(1) - prefix))
    pooled.push_back(tokens.slice(1, range->begin, range->end).mean(1));
  if (fc_norm)
    for (torch::Tensor& features : pooled) features = fc_norm->forward(features);
  return torch::cat(pooled, 1).flatten(1);
}

torch::Tensor VisionTransformerImpl::forward(const torch::Tensor& images,
                                             const FeatureOptions& options) {
  const torch::Tensor kept = forward_until(images, options.cut);
  std::vector<torch::Tensor> features;
  for (const torch::Tensor& tokens :
       forward_from(kept, options.cut, layers_of(options, architecture)))
    features.push_back(forward_head(tokens, options.pooling));
  const torch::Tensor pooled = torch::cat(features, 1);
  const torch::Tensor result = options.projection ? projection->forward(pooled) : pooled;
  return options.cut > 0 ? torch::cat({result, kept.flatten(1)}, 1) : result;
}

}  // namespace coldframe::vit
