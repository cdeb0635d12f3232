#include "extract/vit/checkpoint/canonical_forms.h"

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

torch::Tensor take(StateDict& tensors, const std::string& name) {
  const auto found = tensors.extract(name);
  return found.empty() ? torch::Tensor() : found.mapped();
}

// Concatenated along the first dimension, in float32 where the types differ.
torch::Tensor stacked(std::vector<torch::Tensor> parts, const std::string& name) {
  for (const torch::Tensor& part : parts) {
    if (!part.defined()) throw DataError(concat("a part of '", name, "' is missing"));
    if (part.dim() != parts[0].dim() || (part.dim() > 1 && part.size(1) != parts[0].size(1)))
      throw DataError(concat("the parts of '", name, "' have shapes ", shape_text(parts[0].sizes()),
                             " and ", shape_text(part.sizes()), ", which do not fit together"));
  }
  for (torch::Tensor& part : parts) part = part.to(torch::kFloat32);
  return torch::cat(parts);
}

// The names of `tensors` that end so, without that end.
std::vector<std::string> stems(const StateDict& tensors, std::string_view end) {
  std::vector<std::string> found;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(end)) found.push_back(name.substr(0, name.size() - end.size()));
  return found;
}

// q_proj, k_proj and v_proj become qkv. Keys often have no bias: it would change nothing, since
// the softmax over keys takes no notice of what a query adds to all of them.
void pack_projections(StateDict& tensors) {
  for (const std::string& stem : stems(tensors, "q_proj.weight")) {
    std::vector<torch::Tensor> weights, biases;
    bool biased = false;
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      weights.push_back(take(tensors, concat(stem, part, ".weight")));
      biases.push_back(take(tensors, concat(stem, part, ".bias")));
      if (!weights.back().defined())
        throw DataError(concat("'", stem, part, ".weight' is missing"));
      biased = biased || biases.back().defined();
      if (!biases.back().defined()) biases.back() = torch::zeros({weights.back().size(0)});
    }
    tensors[stem + "qkv.weight"] = stacked(weights, stem + "qkv.weight");
    if (biased) tensors[stem + "qkv.bias"] = stacked(biases, stem + "qkv.bias");
  }
}

// BEiT and EVA: q_bias and v_bias beside a packed qkv.weight.
void pack_biases(StateDict& tensors) {
  for (const std::string& stem : stems(tensors, "q_bias")) {
    const torch::Tensor query = take(tensors, stem + "q_bias");
    const torch::Tensor value = take(tensors, stem + "v_bias");
    tensors[stem + "qkv.bias"] =
        stacked({query, torch::zeros_like(query), value}, stem + "qkv.bias");
  }
}

// facebookresearch/dinov3 keeps a bias for keys that a mask of zeros switches off.
void mask_biases(StateDict& tensors) {
  for (const std::string& stem : stems(tensors, "qkv.bias_mask")) {
    take(tensors, stem + "qkv.bias_mask");
    const auto bias = tensors.find(stem + "qkv.bias");
    if (bias == tensors.end()) continue;
    if (bias->second.dim() != 1 || bias->second.size(0) % 3 != 0)
      throw DataError(concat("'", bias->first, "' has shape ", shape_text(bias->second.sizes()),
                             ", expected three parts"));
    const std::int64_t width = bias->second.size(0) / 3;
    bias->second = bias->second.clone();
    bias->second.narrow(0, width, width).zero_();
  }
}

// torch.nn.MultiheadAttention's packed projection becomes the q and kv of attention pooling.
void split_pool_projection(StateDict& tensors) {
  for (const std::string kind : {"weight", "bias"}) {
    const torch::Tensor packed = take(tensors, "attn_pool.in_proj_" + kind);
    if (!packed.defined()) continue;
    if (packed.dim() == 0 || packed.size(0) % 3 != 0)
      throw DataError(concat("the attention pooling's projection has shape ",
                             shape_text(packed.sizes()), ", expected three parts"));
    const std::int64_t width = packed.size(0) / 3;
    tensors["attn_pool.q." + kind] = packed.narrow(0, 0, width).contiguous();
    tensors["attn_pool.kv." + kind] = packed.narrow(0, width, 2 * width).contiguous();
  }
}

// A gate beside the value becomes a packed fc1 with the gate first; a value alone is a plain fc1.
void pack_gates(StateDict& tensors) {
  for (const std::string kind : {"weight", "bias"})
    for (const std::string& stem : stems(tensors, "fc1_x." + kind)) {
      const torch::Tensor value = take(tensors, stem + "fc1_x." + kind);
      const torch::Tensor gate = take(tensors, stem + "fc1_g." + kind);
      tensors[stem + "fc1." + kind] =
          gate.defined() ? stacked({gate, value}, stem + "fc1." + kind) : value;
    }
}

// DINOv2 with registers gives the class token a position and the registers none; timm's models
// have positions for patches only, so the class token takes its own in.
void fold_class_position(StateDict& tensors) {
  const auto registers = tensors.find("register_tokens");
  const auto cls = tensors.find("cls_token"), position = tensors.find("pos_embed");
  if (registers == tensors.end()) return;
  if (cls == tensors.end() || position == tensors.end() || position->second.dim() != 3 ||
      cls->second.dim() != 3 || position->second.size(1) < 2 ||
      cls->second.size(2) != position->second.size(2))
    throw DataError("register_tokens without a class token and its position: not DINOv2's layout");
  cls->second = cls->second + position->second.slice(1, 0, 1);
  position->second = position->second.slice(1, 1);
  tensors["reg_token"] = registers->second;
  tensors.erase("register_tokens");
}

// BEiT's relative positions that all blocks share are added to each block's own.
void spread_relative_positions(StateDict& tensors) {
  const torch::Tensor shared = take(tensors, "rel_pos_bias.relative_position_bias_table");
  if (!shared.defined()) return;
  for (const std::string& stem : stems(tensors, ".norm1.weight")) {
    const std::string name = stem + ".attn.relative_position_bias_table";
    const auto own = tensors.find(name);
    tensors[name] = own == tensors.end() ? shared : own->second + shared;
  }
}

// [D] -> [1, 1, D], and [N, D] -> [1, N, D].
void add_dimensions(StateDict& tensors) {
  for (const char* name : {"cls_token", "pos_embed", "reg_token"}) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    torch::Tensor& tensor = found->second;
    if (name[0] == 'c' && tensor.dim() == 1) tensor = tensor.unsqueeze(0);
    if (tensor.dim() == 2) tensor = tensor.unsqueeze(0);
  }
}

// A patch embedding as a matrix over a patch's pixels, row by row with the channels innermost
// (transformers' Siglip2), becomes a convolution.
void shape_patches(StateDict& tensors) {
  const auto found = tensors.find("patch_embed.proj.weight");
  if (found == tensors.end()) return;
  torch::Tensor& weight = found->second;
  if (weight.dim() == 2 && weight.size(1) % 3 == 0) {
    const auto patch =
        static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(weight.size(1) / 3))));
    if (patch * patch * 3 != weight.size(1))
      throw DataError(concat("patch_embed.proj.weight has shape ", shape_text(weight.sizes()),
                             ", which is of no square patches"));
    weight = weight.view({weight.size(0), patch, patch, 3}).permute({0, 3, 1, 2}).contiguous();
  }
  // Grey frames have three equal channels; colour is weighed as ITU-R BT.601 and Pillow's "L" do.
  if (weight.dim() == 4 && weight.size(1) == 1)
    weight =
        weight.to(torch::kFloat32) * torch::tensor({0.299f, 0.587f, 0.114f}).view({1, 3, 1, 1});
}

}  // namespace

void canonicalize(StateDict& tensors) {
  split_pool_projection(tensors);
  pack_projections(tensors);
  pack_biases(tensors);
  mask_biases(tensors);
  pack_gates(tensors);
  add_dimensions(tensors);
  fold_class_position(tensors);
  if (torch::Tensor distillation = take(tensors, "dist_token"); distillation.defined())
    tensors["reg_token"] = distillation;
  spread_relative_positions(tensors);
  shape_patches(tensors);
}

}  // namespace coldframe::vit
