#include "extract/vit/architecture.h"

#include <cmath>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

const torch::Tensor* find(const StateDict& weights, const std::string& name, std::int64_t dims) {
  const auto found = weights.find(name);
  if (found == weights.end()) return nullptr;
  if (found->second.dim() != dims || found->second.numel() == 0)
    throw DataError(concat("tensor '", name, "' has shape ", shape_text(found->second.sizes()),
                           ", expected ", dims, " dimensions"));
  return &found->second;
}

const torch::Tensor& require(const StateDict& weights, const std::string& name, std::int64_t dims) {
  const torch::Tensor* tensor = find(weights, name, dims);
  if (tensor == nullptr)
    throw DataError(concat("tensor '", name,
                           "' is missing: this is no ViT with timm's names (the "
                           "first of its ",
                           weights.size(), " tensors is '",
                           weights.empty() ? "" : weights.begin()->first, "')"));
  return *tensor;
}

// The side of a square of `rows` patches, 0 if there is none.
std::int64_t square_side(std::int64_t rows) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(rows))));
  return rows > 0 && side * side == rows ? side : 0;
}

// pos_embed [1, rows, width]: a square of patches, or the prefix tokens and then the patches.
void read_positions(const StateDict& weights, Architecture& architecture) {
  const std::int64_t rows = require(weights, "pos_embed", 3).size(1);
  const std::int64_t prefix = architecture.prefix_tokens();
  const std::int64_t alone = square_side(rows), behind = square_side(rows - prefix);
  // Where both fit, a model with registers is one of DINOv2's, whose positions are of patches only.
  architecture.prefix_positions = behind > 0 && (alone == 0 || architecture.registers == 0);
  architecture.position_grid = architecture.prefix_positions ? behind : alone;
  if (architecture.position_grid == 0)
    throw DataError(concat("pos_embed has ", rows, " rows, which is no square of patches, with ",
                           "or without ", plural(static_cast<std::size_t>(prefix), "prefix token"),
                           "; only square training images are supported"));
}

void read_blocks(const StateDict& weights, Architecture& architecture) {
  // Counted, not taken from the highest number: a gap shows up as a missing tensor later.
  architecture.depth = 0;
  for (const auto& [name, tensor] : weights)
    if (name.starts_with("blocks.") && name.ends_with(".norm1.weight")) ++architecture.depth;
  const torch::Tensor& fc1 = require(weights, "blocks.0.mlp.fc1.weight", 2);
  const torch::Tensor& fc2 = require(weights, "blocks.0.mlp.fc2.weight", 2);
  architecture.mlp_hidden = fc1.size(0);
  if (fc1.size(0) == 2 * fc2.size(1))
    throw DataError(
        "blocks.0.mlp.fc1 is twice as wide as fc2 takes: a SwiGLU MLP (DINOv2's "
        "giant), which is not supported; export the model to TorchScript and pass it "
        "as --backbone");
  architecture.layer_scale = weights.contains("blocks.0.ls1.gamma");
  architecture.qkv_bias = weights.contains("blocks.0.attn.qkv.bias");
}

}  // namespace

Architecture read_architecture(const StateDict& weights) {
  Architecture architecture;
  const torch::Tensor& patches = require(weights, "patch_embed.proj.weight", 4);
  if (patches.size(1) != 3 || patches.size(2) != patches.size(3))
    throw DataError(concat("patch_embed.proj.weight has shape ", shape_text(patches.sizes()),
                           ", expected [width, 3, patch, patch]"));
  architecture.width = patches.size(0);
  architecture.patch = patches.size(2);
  architecture.heads = 0;
  architecture.class_token = find(weights, "cls_token", 3) != nullptr;
  if (const torch::Tensor* registers = find(weights, "reg_token", 3))
    architecture.registers = registers->size(1);
  read_positions(weights, architecture);
  read_blocks(weights, architecture);
  architecture.fc_norm = weights.contains("fc_norm.weight");
  return architecture;
}

void require_same(const Architecture& weights, const Architecture& named, const std::string& name) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* what, std::int64_t found, std::int64_t expected) {
    if (found != expected)
      differences.push_back(concat(what, " ", found, " instead of ", expected));
  };
  compare("patch size", weights.patch, named.patch);
  compare("width", weights.width, named.width);
  compare("depth", weights.depth, named.depth);
  compare("MLP width", weights.mlp_hidden, named.mlp_hidden);
  compare("registers", weights.registers, named.registers);
  compare("class tokens", weights.class_token, named.class_token);
  compare("layer scale", weights.layer_scale, named.layer_scale);
  compare("prefix positions", weights.prefix_positions, named.prefix_positions);
  compare("qkv bias", weights.qkv_bias, named.qkv_bias);
  if (!differences.empty())
    throw DataError(concat("wrong weights for ", name, ": they have ", join(differences, ", "),
                           "; choose the preset or architecture that they were trained with"));
}

std::int64_t choose_heads(const Architecture& weights, std::optional<std::int64_t> heads,
                          const std::string& name) {
  constexpr std::int64_t kHeadWidth = 64;  // of every standard size up to ViT-L
  if (!heads && !name.empty()) return named_architecture(name).heads;
  // ViT-H, the one standard size whose heads are wider (timm, MAE, OpenCLIP alike).
  if (!heads && weights.width == 1280) return 16;
  if (!heads && weights.width % kHeadWidth != 0)
    throw ConfigError(concat("the weights are ", weights.width, " wide, which is no multiple of ",
                             kHeadWidth, "; say the number of attention heads with --heads"));
  const std::int64_t chosen = heads.value_or(weights.width / kHeadWidth);
  if (chosen < 1 || weights.width % chosen != 0)
    throw ConfigError(
        concat("--heads ", chosen, " does not divide the weights' width of ", weights.width));
  return chosen;
}

Json to_json(const Architecture& architecture) {
  Json json;
  json["patch"] = architecture.patch;
  json["width"] = architecture.width;
  json["depth"] = architecture.depth;
  json["heads"] = architecture.heads;
  json["mlp_hidden"] = architecture.mlp_hidden;
  json["class_token"] = architecture.class_token;
  json["registers"] = architecture.registers;
  json["layer_scale"] = architecture.layer_scale;
  json["qkv_bias"] = architecture.qkv_bias;
  json["position_grid"] = architecture.position_grid;
  json["prefix_positions"] = architecture.prefix_positions;
  json["norm"] = architecture.fc_norm ? "fc_norm" : "norm";
  return json;
}

}  // namespace coldframe::vit
