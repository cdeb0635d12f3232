#include "extract/vit/vision_transformer.h"

#include "extract/vit/position_embedding.h"

namespace coldframe::vit {

VisionTransformerImpl::VisionTransformerImpl(const Scope& scope, const Architecture& shape,
                                             std::int64_t image_size)
    : architecture(shape), patch_embed(scope / "patch_embed", shape) {
  const std::int64_t width = shape.width, grid = shape.position_grid;
  register_module("patch_embed", patch_embed);
  if (shape.class_token)
    cls_token = register_parameter("cls_token", scope.take("cls_token", {1, 1, width}), false);
  if (shape.registers > 0)
    reg_token = register_parameter("reg_token",
                                   scope.take("reg_token", {1, shape.registers, width}), false);
  const std::int64_t prefix = shape.prefix_positions ? shape.prefix_tokens() : 0;
  torch::Tensor positions = scope.take("pos_embed", {1, prefix + grid * grid, width});
  if (!positions.is_meta())
    positions = resample_positions(positions, prefix, grid, image_size / shape.patch);
  pos_embed = register_parameter("pos_embed", positions, false);
  for (std::int64_t i = 0; i < shape.depth; ++i)
    blocks->push_back(Block(scope / "blocks" / i, shape));
  register_module("blocks", blocks);
  if (shape.fc_norm)
    fc_norm = register_module("fc_norm", LayerNorm(scope / "fc_norm", width));
  else
    norm = register_module("norm", LayerNorm(scope / "norm", width));
}

torch::Tensor VisionTransformerImpl::add_positions(const torch::Tensor& patches) {
  std::vector<torch::Tensor> tokens;
  for (const torch::Tensor& prefix : {cls_token, reg_token})
    if (prefix.defined()) tokens.push_back(prefix.expand({patches.size(0), -1, -1}));
  tokens.push_back(architecture.prefix_positions ? patches : patches + pos_embed);
  const torch::Tensor all = torch::cat(tokens, 1);
  return architecture.prefix_positions ? all + pos_embed : all;
}

torch::Tensor VisionTransformerImpl::forward_features(const torch::Tensor& images) {
  torch::Tensor x = add_positions(patch_embed->forward(images));  // [B, prefix + patches, D]
  for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x);
  return norm ? norm->forward(x) : x;
}

torch::Tensor VisionTransformerImpl::forward_head(const torch::Tensor& tokens, Pooling pooling) {
  std::vector<torch::Tensor> pooled;
  if (pooling != Pooling::kMean) pooled.push_back(tokens.select(1, 0));  // [B, D]
  if (pooling != Pooling::kCls)
    pooled.push_back(tokens.slice(1, architecture.prefix_tokens()).mean(1));
  if (fc_norm)
    for (torch::Tensor& features : pooled) features = fc_norm->forward(features);
  return torch::cat(pooled, 1);
}

}  // namespace coldframe::vit
