#include "extract/vit/vit.h"

#include <torch/nn/modules/container/modulelist.h>

#include <string>

namespace coldframe::vit {

namespace {

// The norm and the layer of a block's part.
Branch make_branch(torch::nn::Module& owner, const Scope& scope, std::size_t part,
                   const std::string& norm, const Architecture& shape, std::int64_t block) {
  Branch branch;
  branch.norm = make<Norm>(owner, scope, norm, shape.width, shape);
  branch.attention = make_if<Attention>(part == 0, owner, scope, "attn", shape, block);
  branch.mlp = make_if<Mlp>(part == 1, owner, scope, "mlp", shape);
  return branch;
}

LayerScale make_scale(torch::nn::Module& owner, const Scope& scope, const std::string& name,
                      const Architecture& shape) {
  return make_if<LayerScale>(shape.layer_scale, owner, scope, name, shape.width);
}

}  // namespace

BlockImpl::BlockImpl(const Scope& scope, const Architecture& shape, std::int64_t place)
    : kind(shape.block), number(place) {
  if (kind == BlockKind::kParallelScaling)
    make_scaling(scope, shape);
  else if (kind == BlockKind::kParallelThings)
    make_things(scope, shape);
  else
    make_branches(scope, shape);
}

void BlockImpl::make_branches(const Scope& scope, const Architecture& shape) {
  for (const std::size_t part : {0, 1})
    branches[part] = {
        make_branch(*this, scope, part, part == 0 ? "norm1" : "norm2", shape, number)};
  for (const std::size_t part : {0, 1})
    branches[part][0].scale = make_scale(*this, scope, part == 0 ? "ls1" : "ls2", shape);
}

void BlockImpl::make_things(const Scope& scope, const Architecture& shape) {
  for (const std::size_t part : {0, 1}) {
    const char* const name = part == 0 ? "attns" : "ffns";
    torch::nn::ModuleList list;
    for (std::int64_t i = 0; i < shape.parallel; ++i) {
      const auto owner = std::make_shared<torch::nn::Module>();
      Branch branch = make_branch(*owner, scope / name / i, part, "norm", shape, number);
      branch.scale = make_scale(*owner, scope / name / i, "ls", shape);
      branches[part].push_back(branch);
      list->push_back(owner);
    }
    register_module(name, list);
  }
}

void BlockImpl::make_scaling(const Scope& scope, const Architecture& shape) {
  const std::int64_t width = shape.width, hidden = shape.mlp_hidden, head = width / shape.heads;
  const bool bias = shape.projection_bias;
  both.hidden_width = hidden;
  both.head_width = head;
  both.heads = shape.heads;
  both.activation = shape.activation;
  both.in_norm = make<Norm>(*this, scope, "in_norm", width, shape);
  both.in_proj = make<Linear>(*this, scope, "in_proj", width, hidden + 3 * width, shape.qkv_bias);
  both.mlp_bias = make_parameter(*this, scope, "mlp_bias", {hidden}, !shape.qkv_bias);
  both.q_norm = make_if<Norm>(shape.qk_norm, *this, scope, "q_norm", head, shape);
  both.k_norm = make_if<Norm>(shape.qk_norm, *this, scope, "k_norm", head, shape);
  both.attn_out_proj = make<Linear>(*this, scope, "attn_out_proj", width, width, bias);
  both.mlp_out_proj = make<Linear>(*this, scope, "mlp_out_proj", hidden, width, bias);
  both.scale = make_scale(*this, scope, "ls", shape);
}

VisionTransformerImpl::VisionTransformerImpl(const Scope& scope, const Architecture& shape,
                                             const ImageSize& image_size, std::int64_t projected)
    : architecture(shape), grid(image_size, shape.patch) {
  const std::int64_t width = shape.width;
  patch_embed = make<PatchEmbed>(*this, scope, "patch_embed", shape);
  make_tokens(scope);
  norm_pre = make_if<Norm>(shape.norm_pre, *this, scope, "norm_pre", width, shape);
  make_blocks(scope);
  norm = make_if<Norm>(shape.norm, *this, scope, "norm", width, shape);
  fc_norm = make_if<Norm>(shape.fc_norm, *this, scope, "fc_norm", width, shape);
  attn_pool = make_if<AttentionPool>(shape.attention_pool, *this, scope, "attn_pool", shape);
  projection = make_if<Linear>(projected > 0, *this, scope, "projection", width, projected);
}

void VisionTransformerImpl::make_tokens(const Scope& scope) {
  const Architecture& shape = architecture;
  const std::int64_t width = shape.width, side = shape.position_grid;
  cls_token = make_parameter(*this, scope, "cls_token", {1, 1, width}, shape.class_token);
  reg_token =
      make_parameter(*this, scope, "reg_token", {1, shape.registers, width}, shape.registers > 0);
  if (!shape.positions) return;
  const std::int64_t prefix = shape.prefix_positions ? shape.prefix_tokens() : 0;
  torch::Tensor positions = scope.take("pos_embed", {1, prefix + side * side, width});
  if (!positions.is_meta())
    positions = resample_positions(positions, prefix, side, grid, shape.resampling);
  pos_embed = register_parameter("pos_embed", positions, false);
}

void VisionTransformerImpl::make_blocks(const Scope& scope) {
  const Architecture& shape = architecture;
  if (shape.rotary == Rotary::kMixed)
    rope_freqs = register_parameter(
        "rope_freqs",
        (scope / "rope")
            .take("freqs", {2, shape.depth, shape.heads, shape.width / shape.heads / 2}),
        false);
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < shape.depth; ++i) {
    blocks.push_back(Block(scope / "blocks" / i, shape, i));
    list->push_back(blocks.back());
  }
  register_module("blocks", list);
  if (!rope_freqs.defined() || !rope_freqs.is_meta())
    rotations_ = rotations(shape, grid, rope_freqs);
}

Rotation VisionTransformerImpl::rotation(std::int64_t index, const torch::Device& device) const {
  // Trained frequencies change with every step, and their gradient goes through the rotation.
  if (rope_freqs.defined() && rope_freqs.requires_grad())
    return mixed_rotation(architecture, grid, rope_freqs, index);
  Rotation& found = rotations_[static_cast<std::size_t>(index)];
  if (found.sine.defined() && found.sine.device() != device) {
    found.sine = found.sine.to(device);
    found.cosine = found.cosine.to(device);
  }
  return found;
}

torch::Tensor VisionTransformerImpl::forward(const torch::Tensor& images,
                                             const FeatureOptions& options) const {
  TorchOperations ops;
  torch::Tensor found = features(ops, images, options);
  if (options.projection) found = projection->forward(ops, found);
  return ops.cut.defined() ? torch::cat({found, ops.cut.flatten(1)}, 1) : found;
}

torch::Tensor VisionTransformerImpl::forward_features(const torch::Tensor& images) const {
  TorchOperations ops;
  torch::Tensor x = embed(ops, images);
  for (std::int64_t i = 0; i < architecture.depth; ++i)
    x = block(i).forward(ops, x, rotation(i, x.device()));
  return behind(ops, norm, x);
}

torch::Tensor VisionTransformerImpl::forward_head(const torch::Tensor& tokens,
                                                  Pooling pooling) const {
  TorchOperations ops;
  return pooled_tokens(ops, tokens, pooling);
}

}  // namespace coldframe::vit
