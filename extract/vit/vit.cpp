#include "extract/vit/vit.h"

#include <torch/nn/modules/container/modulelist.h>
#include <algorithm>
#include <cmath>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr std::size_t kProblemsShown = 6;

}  // namespace

torch::Tensor StateDictSource::take(const std::string& name, torch::IntArrayRef shape) {
  const auto found = tensors_.find(name);
  std::string problem;
  if (found == tensors_.end()) {
    problem = concat("'", name, "' ", shape_text(shape), " is missing");
  } else if (found->second.sizes() != shape) {
    problem = concat("'", name, "' has shape ", shape_text(found->second.sizes()), ", expected ",
                     shape_text(shape));
  } else if (!found->second.is_floating_point()) {
    problem = concat("'", name, "' has type ", found->second.dtype().name(), ", expected a float");
  } else {
    torch::Tensor taken = found->second.to(torch::kFloat32).contiguous();
    if (!taken.isfinite().all().item<bool>())
      problem = concat("'", name, "' has values that are infinite or no number");
    tensors_.erase(found);
    if (problem.empty()) return taken;
  }
  problems_.push_back(problem);
  tensors_.erase(name);
  return torch::empty(shape, torch::TensorOptions(torch::kMeta));
}

void StateDictSource::finish() const {
  std::vector<std::string> problems = problems_;
  for (const auto& [name, tensor] : tensors_)
    problems.push_back(concat("'", name, "' ", shape_text(tensor.sizes()), " has no place in it"));
  if (problems.empty()) return;
  const std::size_t more = problems.size() - std::min(problems.size(), kProblemsShown);
  problems.resize(problems.size() - more);
  throw DataError(concat("the tensors do not make up a plain ViT with timm's names: tensor ",
                         join(problems, "; tensor "),
                         more > 0 ? concat("; and ", more, " more") : ""));
}

namespace {

// square [1, width, grid, grid] -> [1, width, rows, columns]
torch::Tensor resized(const torch::Tensor& square, const Grid& new_grid, Resampling resampling) {
  const std::vector<std::int64_t> size{new_grid.rows, new_grid.columns};
  switch (resampling) {
    case Resampling::kBicubicAntialiased:
      return at::_upsample_bicubic2d_aa(square, size, /*align_corners=*/false);
    case Resampling::kBicubic:
      return at::upsample_bicubic2d(square, size, /*align_corners=*/false);
    case Resampling::kBilinearAntialiased:
      return at::_upsample_bilinear2d_aa(square, size, /*align_corners=*/false);
  }
  return {};
}

// The place of each patch along an axis of `grid` patches, [grid].
torch::Tensor places(const Architecture& shape, std::int64_t grid) {
  torch::Tensor at = torch::arange(grid, torch::kFloat32);
  if (shape.rotary == Rotary::kDinov3)
    return 2 * ((at + 0.5 + shape.rotary_offset) / static_cast<double>(grid)) - 1;
  at = at + shape.rotary_offset;
  if (shape.rotary_grid > 0)
    at = at / static_cast<double>(grid) * static_cast<double>(shape.rotary_grid);
  return at;
}

// [patches, 2]: the places of patches in the order of rows, along the first and the second axis.
torch::Tensor patch_places(const Architecture& shape, const Grid& grid) {
  const std::int64_t rows = grid.rows, columns = grid.columns;
  const torch::Tensor row =
      places(shape, rows).view({rows, 1}).expand({rows, columns}).reshape({-1});
  const torch::Tensor column =
      places(shape, columns).view({1, columns}).expand({rows, columns}).reshape({-1});
  return shape.rotary_xy ? torch::stack({column, row}, 1) : torch::stack({row, column}, 1);
}

// [head width / 4]: radians per place.
torch::Tensor frequencies_of(const Architecture& shape) {
  return (shape.rotary == Rotary::kDinov3 ? 2 * M_PI : 1.0) / periods(shape);
}

// Angles of pairs [..., head width / 2] -> of numbers [..., head width].
torch::Tensor for_each_number(const torch::Tensor& pairs, bool half) {
  return half ? torch::cat({pairs, pairs}, -1) : pairs.repeat_interleave(2, -1);
}

Rotation rotation_by(const torch::Tensor& angles, const Architecture& shape) {
  return {for_each_number(angles.sin(), shape.rotary_half),
          for_each_number(angles.cos(), shape.rotary_half), shape.rotary_half,
          shape.prefix_tokens()};
}

// Rotary::kVjepa2 and kVjepa21.
Rotation rotation_by_thirds(const Architecture& shape, const Grid& grid) {
  const std::int64_t width = shape.width / shape.heads, third = width / 3 / 2 * 2;
  const bool mended = shape.rotary == Rotary::kVjepa21;
  const auto across = [&](std::int64_t count) {
    const torch::Tensor at = torch::arange(count, torch::kFloat32);
    return mended && count > 1
               ? at * static_cast<double>(shape.rotary_grid - 1) / static_cast<double>(count - 1)
               : at;
  };
  const std::vector<torch::Tensor> places = torch::meshgrid(
      {torch::arange(grid.steps, torch::kFloat32), across(grid.rows), across(grid.columns)}, "ij");
  const torch::Tensor exponent = torch::arange(third / 2, torch::kFloat32) / (third / 2.0);
  const torch::Tensor frequencies = 1 / torch::pow(shape.rotary_temperature, exponent);
  std::vector<torch::Tensor> angles;
  for (const torch::Tensor& place : places) {
    const torch::Tensor of_pairs = place.reshape({-1, 1}) * frequencies;  // [N, third / 2]
    angles.push_back(mended ? of_pairs.repeat_interleave(2, 1) : of_pairs.repeat({1, 2}));
  }
  angles.push_back(torch::zeros({grid.patches(), width - 3 * third}));
  const torch::Tensor all = torch::cat(angles, 1);  // [N, d]
  return {all.sin(), all.cos(), false, shape.prefix_tokens(), !mended};
}

// x [..., d] with each pair (a, b) as (-b, a).
torch::Tensor quarter_turned(const torch::Tensor& x, bool half) {
  if (half) {
    const auto parts = x.chunk(2, -1);
    return torch::cat({-parts[1], parts[0]}, -1);
  }
  const torch::Tensor pairs = x.unflatten(-1, {-1, 2});
  return torch::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

}  // namespace

Grid::Grid(const Architecture& architecture, const ImageSize& size, std::int64_t frames)
    : Grid(size, architecture.patch) {
  if (!architecture.takes_clips()) return;
  steps = frames / architecture.tubelet;
  if (steps < 1 || frames % architecture.tubelet != 0)
    throw ConfigError(concat("the backbone takes clips of a multiple of ", architecture.tubelet,
                             " frames, and was given ",
                             plural(static_cast<std::size_t>(frames), "frame")));
}

Grid position_grid(const Architecture& architecture) {
  Grid grid(architecture.position_grid);
  grid.steps = architecture.position_steps;
  return grid;
}

torch::Tensor sinusoids(std::int64_t tokens, std::int64_t width) {
  const torch::Tensor pair = torch::arange(width, torch::kFloat64).div(2, "floor");
  const torch::Tensor angles = torch::arange(tokens, torch::kFloat64).unsqueeze(1) /
                               torch::pow(10000.0, 2 * pair / static_cast<double>(width));
  const torch::Tensor even = (torch::arange(width) % 2 == 0);
  return torch::where(even, angles.sin(), angles.cos()).to(torch::kFloat32).unsqueeze(0);
}

torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, const Grid& new_grid, Resampling resampling) {
  if (Grid(grid) == new_grid) return positions;
  const std::int64_t width = positions.size(2);
  const torch::Tensor square = positions
                                   .slice(1, prefix)  // [1, grid², width]
                                   .reshape({1, grid, grid, width})
                                   .permute({0, 3, 1, 2});  // [1, width, grid, grid]
  const torch::Tensor resampled = resized(square, new_grid, resampling)
                                      .permute({0, 2, 3, 1})
                                      .reshape({1, new_grid.patches(), width});
  return torch::cat({positions.slice(1, 0, prefix), resampled}, 1).contiguous();
}

torch::Tensor relative_bias(const torch::Tensor& table, std::int64_t grid) {
  const std::int64_t patches = grid * grid, rows = table.size(0), side = 2 * grid - 1;
  const torch::Tensor at = torch::arange(patches);
  const torch::Tensor row = at.floor_divide(grid), column = at.remainder(grid);
  const auto differences = [&](const torch::Tensor& place) {
    return place.unsqueeze(1) - place.unsqueeze(0) + grid - 1;  // query's minus key's, from 0
  };
  torch::Tensor index = torch::empty({1 + patches, 1 + patches}, torch::kInt64);
  index.slice(0, 1).slice(1, 1).copy_(differences(row) * side + differences(column));
  index.select(0, 0).fill_(rows - 3);
  index.select(1, 0).fill_(rows - 2);
  index[0][0] = rows - 1;
  return table.index_select(0, index.flatten().to(table.device()))
      .view({1 + patches, 1 + patches, -1})
      .permute({2, 0, 1})
      .contiguous();
}

std::vector<Rotation> rotations(const Architecture& shape, const Grid& grid,
                                const torch::Tensor& frequencies) {
  std::vector<Rotation> all;
  if (shape.rotary == Rotary::kNone)
    return std::vector<Rotation>(static_cast<std::size_t>(shape.depth));
  if (shape.rotary == Rotary::kMixed) {
    for (std::int64_t block = 0; block < shape.depth; ++block)
      all.push_back(mixed_rotation(shape, grid, frequencies, block));
    return all;
  }
  if (shape.rotary == Rotary::kVjepa2 || shape.rotary == Rotary::kVjepa21)
    return std::vector<Rotation>(static_cast<std::size_t>(shape.depth),
                                 rotation_by_thirds(shape, grid));
  const torch::Tensor at = patch_places(shape, grid);                                 // [N, 2]
  const torch::Tensor angles = (at.unsqueeze(2) * frequencies_of(shape)).flatten(1);  // [N, d/2]
  return std::vector<Rotation>(static_cast<std::size_t>(shape.depth), rotation_by(angles, shape));
}

Rotation mixed_rotation(const Architecture& shape, const Grid& grid,
                        const torch::Tensor& frequencies, std::int64_t block) {
  const torch::Tensor at = patch_places(shape, grid).to(frequencies.device());  // [N, 2]
  const torch::Tensor of_block = frequencies.select(1, block).unsqueeze(2);     // [2, h, 1, d/2]
  return rotation_by(
      at.select(1, 0).unsqueeze(1) * of_block[0] + at.select(1, 1).unsqueeze(1) * of_block[1],
      shape);
}

torch::Tensor periods(const Architecture& shape) {
  const std::int64_t count = shape.width / shape.heads / 4;
  const torch::Tensor exponent = torch::arange(count, torch::kFloat32) / static_cast<double>(count);
  return torch::pow(torch::full({}, shape.rotary_temperature), exponent);
}

torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation) {
  if (!rotation.sine.defined()) return x;
  const torch::Tensor patches = x.slice(2, rotation.prefix);
  // In float32: angles of many patches lose too much in half the bits.
  const torch::Tensor turned =
      patches * rotation.cosine + quarter_turned(patches, rotation.half) * rotation.sine;
  return torch::cat({x.slice(2, 0, rotation.prefix), turned.to(x.scalar_type())}, 2);
}

using Value = TorchOperations::Value;

Value TorchOperations::linear(const Value& x, const Value& weight, const Value& bias) const {
  return at::linear(x, weight, bias);
}

Value TorchOperations::norm(const Value& x, const NormImpl& layer) const {
  return layer.bias.defined()
             ? at::layer_norm(x, {x.size(-1)}, layer.weight, layer.bias, layer.epsilon)
             : at::rms_norm(x, {x.size(-1)}, layer.weight, layer.epsilon);
}

std::vector<Value> TorchOperations::split(const Value& x, const Sizes& sizes) const {
  return x.split_with_sizes(sizes, -1);
}

std::vector<Value> TorchOperations::heads(const Value& x, std::int64_t parts,
                                          std::int64_t heads) const {
  return x.view({x.size(0), x.size(1), parts, heads, x.size(2) / parts / heads})
      .permute({2, 0, 3, 1, 4})  // [parts, B, h, tokens, d]
      .unbind(0);
}

Value TorchOperations::attend(const Value& q, const Value& k, const Value& v, std::int64_t,
                              const Value& bias) const {
  std::optional<Value> added;
  if (bias.defined()) added = bias.to(q.scalar_type());
  return at::scaled_dot_product_attention(q, k, v, added);
}

Value TorchOperations::latent_query(const AttentionPoolImpl& pool, const Value& tokens) const {
  return pool.q->forward(*this, pool.latent)
      .view({1, 1, pool.heads, -1})
      .transpose(1, 2)
      .expand({tokens.size(0), -1, -1, -1});
}

// [B, 3, H, W] or [B, T, 3, H, W] -> [B, patches, 3 · tubelet · patch · patch]
Value TorchOperations::cut_patches(const Value& images, std::int64_t patch,
                                   std::int64_t tubelet) const {
  const std::int64_t batch = images.size(0);
  const std::int64_t steps = images.dim() == 5 ? images.size(1) / tubelet : 1;
  const std::int64_t rows = images.size(-2) / patch, columns = images.size(-1) / patch;
  return images.view({batch, steps, tubelet, 3, rows, patch, columns, patch})
      .permute({0, 1, 4, 6, 3, 2, 5, 7})  // [B, steps, rows, columns, 3, tubelet, patch, patch]
      .reshape({batch, steps * rows * columns, 3 * tubelet * patch * patch});
}

// A matrix product stands in for the convolution: on CUDA it keeps clear of cuDNN, whose
// convolutions round float32 to TF32 by default.
Value TorchOperations::patches(const Value& images, const PatchEmbedImpl& layer) const {
  return linear(cut_patches(images, layer.patch, layer.tubelet), layer.proj->weight.flatten(1),
                layer.proj->bias);
}

Value TorchOperations::with_start(const Value& patches, const VisionTransformerImpl& model) const {
  std::vector<Value> tokens;
  for (const Value& prefix : {model.cls_token, model.reg_token})
    if (prefix.defined()) tokens.push_back(prefix.expand({patches.size(0), -1, -1}));
  const Value& positions = model.pos_embed;
  const bool of_patches = positions.defined() && !model.architecture.prefix_positions;
  tokens.push_back(of_patches ? patches + positions : patches);
  const Value all = torch::cat(tokens, 1);
  return positions.defined() && !of_patches ? all + positions : all;
}

Rotation TorchOperations::rotation(const VisionTransformerImpl& model, std::int64_t block,
                                   const Value& x) const {
  return model.rotation(block, x.device());
}

namespace {

// The norm behind averaging has an epsilon of its own in some models.
Architecture with_fc_norm_epsilon(Architecture shape) {
  if (shape.fc_norm_epsilon > 0) shape.norm_epsilon = shape.fc_norm_epsilon;
  return shape;
}

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

void AttentionPoolImpl::make_blocks(const Scope& scope, const Architecture& shape) {
  if (shape.pool_depth == 0) return;
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < shape.pool_depth; ++i) {
    blocks.push_back(Block(scope / "blocks" / i, shape, i));
    list->push_back(blocks.back());
  }
  register_module("blocks", list);
}

VisionTransformerImpl::VisionTransformerImpl(const Scope& scope, const Architecture& shape,
                                             const ImageSize& image_size, std::int64_t projected,
                                             std::int64_t frames)
    : architecture(shape), grid(shape, image_size, frames) {
  const std::int64_t width = shape.width;
  patch_embed = make<PatchEmbed>(*this, scope, "patch_embed", shape);
  make_tokens(scope);
  norm_pre = make_if<Norm>(shape.norm_pre, *this, scope, "norm_pre", width, shape);
  make_blocks(scope);
  norm = make_if<Norm>(shape.norm, *this, scope, "norm", width, shape);
  fc_norm =
      make_if<Norm>(shape.fc_norm, *this, scope, "fc_norm", width, with_fc_norm_epsilon(shape));
  attn_pool = make_if<AttentionPool>(shape.attention_pool, *this, scope, "attn_pool", shape);
  projection = make_if<Linear>(projected > 0, *this, scope, "projection", width, projected);
}

void VisionTransformerImpl::make_tokens(const Scope& scope) {
  const Architecture& shape = architecture;
  const std::int64_t width = shape.width, side = shape.position_grid;
  cls_token = make_parameter(*this, scope, "cls_token", {1, 1, width}, shape.class_token);
  reg_token =
      make_parameter(*this, scope, "reg_token", {1, shape.registers, width}, shape.registers > 0);
  if (shape.sinusoid_grid > 0)
    pos_embed = register_buffer("pos_embed", sinusoids(grid.patches(), width));
  if (!shape.positions) return;
  const std::int64_t prefix = shape.prefix_positions ? shape.prefix_tokens() : 0;
  torch::Tensor positions =
      scope.take("pos_embed", {1, prefix + position_grid(shape).patches(), width});
  if (!positions.is_meta() && !shape.takes_clips())  // a clip's fit, or are refused
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
  return apply_if_present(ops, norm, x);
}

torch::Tensor VisionTransformerImpl::forward_head(const torch::Tensor& tokens,
                                                  Pooling pooling) const {
  TorchOperations ops;
  return pooled_tokens(ops, tokens, pooling);
}

}  // namespace coldframe::vit
