#include "extract/vit/resolve_architecture.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/safetensors.h"
#include "extract/vit/published/published.h"
#include "extract/vit/vit.h"

namespace coldframe::vit {

// How repositories name a ViT's tensors: a table of renamings for each.

// Replaces `from` by `to` wherever it stands in a name; at its beginning only if `from` starts with
// '^'.
struct Renaming {
  std::string_view from, to;
};

// The place of a CLIP's projection of images.
struct ProjectionName {
  std::string_view inside;        // the end of the encoder's prefix that is taken off before, ""
  std::string_view weight, bias;  // "" without a bias
  bool transposed = false;        // [D, P] instead of [P, D]
};

struct NamingScheme {
  std::string_view name;    // in messages
  std::string_view marker;  // the end of the name of a tensor that every such checkpoint has
  std::span<const Renaming> renamings;  // into timm's names, in this order
  // Several models with other activations, epsilons or norms have these names and shapes: without a
  // config the model must be named.
  bool asks = false;
  std::span<const ProjectionName> projections{};
};

// In the order in which they are tried.
std::span<const NamingScheme> naming_schemes();

std::string renamed(const NamingScheme& scheme, std::string name);

// The one form of tensors that repositories keep in several.

// Changes tensors under timm's names as canonical_names() says. DataError names what does not fit.
void canonicalize(StateDict& tensors);

namespace {

// transformers/models/{vit,vit_mae,deit,ijepa,beit,dinov2,dinov2_with_registers,videomae}.
constexpr Renaming kTransformersVit[] = {
    {"^embeddings.patch_embeddings.projection.", "patch_embed.proj."},
    {"^embeddings.position_embeddings", "pos_embed"},
    {"^embeddings.distillation_token", "dist_token"},
    {"^embeddings.", ""},  // cls_token, mask_token, register_tokens
    {"^encoder.layer.", "blocks."},
    {"^encoder.relative_position_bias.", "rel_pos_bias."},
    {".attention.attention.relative_position_bias.", ".attn."},
    {".attention.attention.query.", ".attn.q_proj."},
    {".attention.attention.key.", ".attn.k_proj."},
    {".attention.attention.value.", ".attn.v_proj."},
    {".attention.attention.q_bias", ".attn.q_bias"},  // VideoMAE's files, which have no key.bias
    {".attention.attention.v_bias", ".attn.v_bias"},
    {".attention.output.dense.", ".attn.proj."},
    {".intermediate.dense.", ".mlp.fc1."},
    {".output.dense.", ".mlp.fc2."},
    {".mlp.weights_in.", ".mlp.fc1."},
    {".mlp.weights_out.", ".mlp.fc2."},
    {".layernorm_before.", ".norm1."},
    {".layernorm_after.", ".norm2."},
    {".layer_scale1.lambda1", ".ls1.gamma"},
    {".layer_scale2.lambda1", ".ls2.gamma"},
    {".lambda_1", ".ls1.gamma"},
    {".lambda_2", ".ls2.gamma"},
    {"^layernorm.", "norm."},
    {"^pooler.layernorm.", "fc_norm."},
    {"^pooler.dense.", "head."},
};

// transformers/models/dinov3_vit.
constexpr Renaming kTransformersDinov3[] = {
    {"^embeddings.patch_embeddings.", "patch_embed.proj."},
    {"^embeddings.register_tokens", "reg_token"},
    {"^embeddings.", ""},
    {"^model.layer.", "blocks."},
    {"^layer.", "blocks."},
    {".attention.o_proj.", ".attn.proj."},
    {".attention.", ".attn."},
    {".layer_scale1.lambda1", ".ls1.gamma"},
    {".layer_scale2.lambda1", ".ls2.gamma"},
    {".mlp.gate_proj.", ".mlp.fc1_g."},
    {".mlp.up_proj.", ".mlp.fc1_x."},
    {".mlp.down_proj.", ".mlp.fc2."},
};

// transformers/models/vjepa2.
constexpr Renaming kTransformersVjepa2[] = {
    {"^embeddings.patch_embeddings.proj.", "patch_embed.proj."},
    {"^layer.", "blocks."},
    {".attention.query.", ".attn.q_proj."},
    {".attention.key.", ".attn.k_proj."},
    {".attention.value.", ".attn.v_proj."},
    {".attention.proj.", ".attn.proj."},
    {"^layernorm.", "norm."},
    {"^pooler.query_tokens", "attn_pool.latent"},
    {"^pooler.self_attention_layers.", "attn_pool.blocks."},
    {"^pooler.cross_attention_layer.cross_attn.", "attn_pool."},
    {"^pooler.cross_attention_layer.layer_norm2.", "attn_pool.norm."},
    {"^pooler.cross_attention_layer.layer_norm1.", "attn_pool.norm1."},
    {"^pooler.cross_attention_layer.", "attn_pool."},
    {".layer_norm1.", ".norm1."},
    {".layer_norm2.", ".norm2."},
    {".self_attn.out_proj.", ".attn.proj."},
    {".self_attn.", ".attn."},
};

// transformers/models/{clip,siglip,siglip2}.
constexpr Renaming kTransformersClip[] = {
    {"^embeddings.patch_embedding.", "patch_embed.proj."},
    {"^embeddings.position_embedding.weight", "pos_embed"},
    {"^embeddings.class_embedding", "cls_token"},
    {"^pre_layrnorm.", "norm_pre."},
    {"^post_layernorm.", "norm."},
    {"^encoder.layers.", "blocks."},
    {".layer_norm1.", ".norm1."},
    {".layer_norm2.", ".norm2."},
    {".self_attn.out_proj.", ".attn.proj."},
    {".self_attn.", ".attn."},
    {"^head.probe", "attn_pool.latent"},
    {"^head.attention.in_proj_", "attn_pool.in_proj_"},
    {"^head.attention.out_proj.", "attn_pool.proj."},
    {"^head.layernorm.", "attn_pool.norm."},
    {"^head.mlp.", "attn_pool.mlp."},
};

// open_clip/transformer.py, and OpenAI's CLIP before it.
constexpr Renaming kOpenClip[] = {
    {"^conv1.", "patch_embed.proj."},
    {"^class_embedding", "cls_token"},
    {"^positional_embedding", "pos_embed"},
    {"^ln_pre.", "norm_pre."},
    {"^ln_post.", "norm."},
    {"^proj", "head.proj"},
    {"^transformer.resblocks.", "blocks."},
    {".ln_1.", ".norm1."},
    {".ln_2.", ".norm2."},
    {".attn.in_proj_", ".attn.qkv."},
    {".attn.out_proj.", ".attn.proj."},
    {".mlp.c_fc.", ".mlp.fc1."},
    {".mlp.c_proj.", ".mlp.fc2."},
    {".ls_1.", ".ls1."},
    {".ls_2.", ".ls2."},
};

// timm's names, and those that repositories derived from it have: facebookresearch/{dino,dinov2,
// dinov3,mae,deit,ijepa,vjepa2}, microsoft/unilm (BEiT), baaivision/EVA, MCG-NJU/VideoMAE,
// OpenGVLab/VideoMAEv2.
constexpr Renaming kTimm[] = {
    {"^storage_tokens", "reg_token"},
    {".mlp.w12.", ".mlp.fc1."},
    {".mlp.w3.", ".mlp.fc2."},
    {".mlp.w1.", ".mlp.fc1_g."},
    {".mlp.w2.", ".mlp.fc1_x."},
    {".mlp.ffn_ln.", ".mlp.norm."},
    {".attn.inner_attn_ln.", ".attn.norm."},
    {".gamma_1", ".ls1.gamma"},
    {".gamma_2", ".ls2.gamma"},
};

constexpr ProjectionName kClipProjection[] = {{"vision_model.", "visual_projection.weight", ""}};
constexpr ProjectionName kOpenClipProjection[] = {{"", "proj", "", true}};
// open_clip's towers that timm makes (timm_model.py), and timm's own conversions of CLIPs.
constexpr ProjectionName kTimmProjection[] = {{"trunk.", "head.proj.weight", "head.proj.bias"},
                                              {"", "head.weight", "head.bias"}};

constexpr std::array kSchemes = std::to_array<NamingScheme>({
    {"transformers' ViT, BEiT or DINOv2", "embeddings.patch_embeddings.projection.weight",
     kTransformersVit, true},
    {"transformers' DINOv3", "embeddings.patch_embeddings.weight", kTransformersDinov3, true},
    {"transformers' V-JEPA 2", "embeddings.patch_embeddings.proj.weight", kTransformersVjepa2,
     true},
    {"transformers' CLIP or SigLIP", "embeddings.patch_embedding.weight", kTransformersClip, true,
     kClipProjection},
    {"open_clip", "conv1.weight", kOpenClip, true, kOpenClipProjection},
    {"timm", "patch_embed.proj.weight", kTimm, false, kTimmProjection},
});

void replace(std::string& name, const Renaming& renaming) {
  if (renaming.from.starts_with('^')) {
    const std::string_view start = renaming.from.substr(1);
    if (name.starts_with(start)) name.replace(0, start.size(), renaming.to);
    return;
  }
  const std::size_t at = name.find(renaming.from);
  if (at != std::string::npos) name.replace(at, renaming.from.size(), renaming.to);
}

}  // namespace

std::span<const NamingScheme> naming_schemes() {
  return kSchemes;
}

std::string renamed(const NamingScheme& scheme, std::string name) {
  for (const Renaming& renaming : scheme.renamings) replace(name, renaming);
  return name;
}

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

// BEiT and EVA: q_bias and v_bias next to a packed qkv.weight.
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

// V-JEPA's pooler keeps the query's projection, the keys' and the values' apart; behind
// pack_projections() they are one.
void split_packed_pool(StateDict& tensors) {
  for (const std::string kind : {"weight", "bias"})
    if (const torch::Tensor packed = take(tensors, "attn_pool.qkv." + kind); packed.defined())
      tensors["attn_pool.in_proj_" + kind] = packed;
}

// A gate next to the value becomes a packed fc1 with the gate first; a value alone is a plain fc1.
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
  if (weight.dim() >= 4 && weight.size(1) == 1) {
    const torch::Tensor shares = torch::tensor({0.299f, 0.587f, 0.114f}).view({1, 3, 1, 1});
    weight = weight.to(torch::kFloat32) * (weight.dim() == 5 ? shares.unsqueeze(4) : shares);
  }
}

// V-JEPA 2.1 has a patch embedding for images beside that for clips, a vector that is added to the
// tokens of each, and norms for the outputs of several blocks, of which the last gives the
// features.
void take_clips_alone(StateDict& tensors) {
  const torch::Tensor added = take(tensors, "video_mod_embed");
  const auto bias = tensors.find("patch_embed.proj.bias");
  if (added.defined() && bias != tensors.end()) {
    if (added.numel() != bias->second.numel())
      throw DataError(concat("'video_mod_embed' has shape ", shape_text(added.sizes()),
                             ", and the patch embedding's bias ",
                             shape_text(bias->second.sizes())));
    bias->second = bias->second.to(torch::kFloat32) + added.to(torch::kFloat32).flatten();
  }
  for (const char* name :
       {"img_mod_embed", "patch_embed_img.proj.weight", "patch_embed_img.proj.bias"})
    take(tensors, name);
  std::size_t levels = 0;
  while (tensors.contains(concat("norms_block.", levels, ".weight"))) ++levels;
  for (std::size_t level = 0; level < levels; ++level)
    for (const std::string kind : {"weight", "bias"}) {
      torch::Tensor norm = take(tensors, concat("norms_block.", level, ".", kind));
      if (level + 1 == levels && norm.defined()) tensors["norm." + kind] = norm;
    }
}

}  // namespace

void canonicalize(StateDict& tensors) {
  pack_projections(tensors);
  split_packed_pool(tensors);
  split_pool_projection(tensors);
  pack_biases(tensors);
  mask_biases(tensors);
  pack_gates(tensors);
  add_dimensions(tensors);
  fold_class_position(tensors);
  if (torch::Tensor distillation = take(tensors, "dist_token"); distillation.defined())
    tensors["reg_token"] = distillation;
  spread_relative_positions(tensors);
  shape_patches(tensors);
  take_clips_alone(tensors);
}

namespace {

constexpr std::array<std::string_view, 5> kWrappers = {"module.", "_orig_mod.", "model.",
                                                       "encoder.", "backbone."};
constexpr int kMaxWrappers = 8;  // more, and the names were made to waste time

}  // namespace

StateDict inside(StateDict tensors, std::string_view prefix) {
  StateDict kept;
  for (auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) kept.emplace(name.substr(prefix.size()), std::move(tensor));
  if (kept.size() < tensors.size())
    log_info(concat("weights: left out ", plural(tensors.size() - kept.size(), "tensor"),
                    " outside '", prefix, "'"));
  return kept;
}

StateDict strip_prefixes(StateDict tensors) {
  for (int round = 0; round < kMaxWrappers && !tensors.empty(); ++round) {
    for (const std::string_view prefix : kWrappers) {
      const auto count = static_cast<std::size_t>(
          std::count_if(tensors.begin(), tensors.end(),
                        [&](const auto& item) { return item.first.starts_with(prefix); }));
      if (count == 0 || (count < tensors.size() && prefix != "backbone.")) continue;
      tensors = inside(std::move(tensors), prefix);
    }
  }
  return tensors;
}

namespace {

struct Unsupported {
  std::string_view part;  // of a tensor's name
  std::string_view design;
};
constexpr Unsupported kUnsupported[] = {
    {"layers.0.blocks.", "windows (a Swin transformer)"},
    {"layer1.0.conv1.", "convolutions (a ResNet)"},
    {".attn.scale", "cosine attention (an option of VideoMAE v2)"},
    {".attn.lambda_a", "differential attention with two numbers for its weight"},
    {"blocks.0.lambda_", "differential attention beside the MLP"},
    {".attn.wq.", "grouped queries (Sapiens 2)"},
    {".attn.gate.", "a gated attention"},
    {".adaLN", "conditioned norms"},
};

// What only training or a classifier uses, and buffers that are computed from the architecture.
bool is_left_out(std::string_view name) {
  for (const std::string_view start : {"head.", "head_dist.", "pre_logits.", "lm_head.", "decoder_",
                                       "fc.", "projectors.", "local_cls_norm.", "rope_embed."})
    if (name.starts_with(start)) return true;
  for (const std::string_view end :
       {"relative_position_index", ".rope.freqs_cos", ".rope.freqs_sin", ".attn.k_bias"})
    if (name.ends_with(end)) return true;
  return name == "mask_token" || name == "rope.freqs_cos" || name == "rope.freqs_sin";
}

// Of FSDP, activation checkpointing and torch.compile, anywhere in a name.
std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper :
       {"_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod."})
    for (std::size_t at; (at = name.find(wrapper)) != std::string::npos;)
      name.erase(at, wrapper.size());
  return name;
}

// DINOv2's training keeps blocks in chunks, blocks.CHUNK.BLOCK.norm1, and numbers them throughout.
std::string without_chunk(const std::string& name) {
  if (!name.starts_with("blocks.")) return name;
  const std::size_t chunk = name.find('.', 7), block = name.find('.', chunk + 1);
  if (chunk == std::string::npos || block == std::string::npos) return name;
  const auto is_number = [&](std::size_t begin, std::size_t end) {
    return begin < end && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin),
                                      name.begin() + static_cast<std::ptrdiff_t>(end),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  if (!is_number(7, chunk) || !is_number(chunk + 1, block)) return name;
  return "blocks." + name.substr(chunk + 1);
}

bool is_at_start_of_name(const std::string& name, std::size_t at) {
  return at == 0 || name[at - 1] == '.';
}

std::set<std::string> prefixes_of(const StateDict& tensors, std::string_view marker) {
  std::set<std::string> prefixes;
  for (const auto& [name, tensor] : tensors)
    if (name.ends_with(marker) && is_at_start_of_name(name, name.size() - marker.size()))
      prefixes.insert(name.substr(0, name.size() - marker.size()));
  return prefixes;
}

// Of several encoders the teacher's: DINO's averages over the student's steps, which the papers
// evaluate.
std::string chosen_prefix(const std::set<std::string>& prefixes) {
  if (prefixes.size() == 1) return *prefixes.begin();
  std::vector<std::string> teachers;
  for (const std::string& prefix : prefixes)
    if (prefix.find("teacher") != std::string::npos || prefix.find("ema") != std::string::npos)
      teachers.push_back(prefix);
  if (teachers.size() == 1) return teachers.front();
  throw DataError(concat("it holds several image encoders, '",
                         join({prefixes.begin(), prefixes.end()}, "', '"),
                         "'; save the one to use by itself"));
}

void refuse_unsupported(const StateDict& tensors) {
  for (const auto& [name, tensor] : tensors)
    for (const Unsupported& unsupported : kUnsupported)
      if (name.find(unsupported.part) != std::string::npos)
        throw DataError(concat("tensor '", name, "' belongs to ", unsupported.design,
                               ", which is not supported; export the model to TorchScript and pass "
                               "it as --backbone"));
}

StateDict unwrapped_all(StateDict tensors) {
  StateDict result;
  std::map<std::string, std::string> stored;
  for (auto& [name, tensor] : tensors) {
    const std::string plain = without_wrappers(name);
    const auto [first, is_new] = stored.emplace(plain, name);
    if (!is_new)
      throw DataError(concat("the tensors '", first->second, "' and '", name, "' are both '", plain,
                             "' without their wrappers' names; save the one to use by itself"));
    result.emplace(plain, std::move(tensor));
  }
  return result;
}

StateDict renamed_all(const NamingScheme& scheme, StateDict tensors) {
  StateDict result;
  for (auto& [name, tensor] : tensors) {
    const std::string timm = renamed(scheme, without_chunk(name));
    if (is_left_out(timm)) continue;
    if (!result.emplace(timm, std::move(tensor)).second)
      throw DataError(concat("two tensors stand for '", timm, "', one of them is '", name, "'"));
  }
  return result;
}

StateDict projection_of(const NamingScheme& scheme, const StateDict& tensors,
                        const std::string& prefix) {
  for (const ProjectionName& name : scheme.projections) {
    if (!prefix.ends_with(name.inside)) continue;
    const std::string outside = prefix.substr(0, prefix.size() - name.inside.size());
    const auto found = tensors.find(outside + std::string(name.weight));
    if (found == tensors.end() || found->second.dim() != 2) continue;
    const torch::Tensor weight = name.transposed ? found->second.t() : found->second;
    const auto bias = tensors.find(outside + std::string(name.bias));
    return {{"projection.weight", weight},
            {"projection.bias", bias == tensors.end() || name.bias.empty()
                                    ? torch::zeros({weight.size(0)})
                                    : bias->second}};
  }
  return {};
}

// transformers' classifiers of clips keep beside the encoder what pools its tokens: VideoMAE the
// norm behind averaging, V-JEPA 2 its attentive pooler.
StateDict pooling_beside(const StateDict& tensors, const std::string& prefix) {
  StateDict found;
  for (const auto& [encoder, part] :
       {std::pair<std::string_view, std::string_view>{"videomae.", "fc_norm."},
        {"vjepa2.encoder.", "pooler."}}) {
    if (!prefix.ends_with(encoder)) continue;
    const std::size_t outside = prefix.size() - encoder.size();
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with(prefix.substr(0, outside) + std::string(part)))
        found.emplace(name.substr(outside), tensor);
  }
  return found;
}

StoredNames stored_names(const StateDict& tensors) {
  const auto any = [&](std::string_view end) {
    return std::ranges::any_of(tensors,
                               [&](const auto& item) { return item.first.ends_with(end); });
  };
  const bool dinov3 = tensors.contains("storage_tokens");  // facebookresearch/dinov3: EVA's parts
  return {dinov3 || any(".gamma_1"), dinov3 || any(".q_bias") || any(".q_proj.weight"),
          tensors.contains("norms_block.0.weight")};
}

}  // namespace

CanonicalWeights canonical_names(StateDict tensors) {
  StateDict unwrapped = unwrapped_all(std::move(tensors));
  refuse_unsupported(unwrapped);
  for (const NamingScheme& scheme : naming_schemes()) {
    const std::set<std::string> prefixes = prefixes_of(unwrapped, scheme.marker);
    if (prefixes.empty()) continue;
    CanonicalWeights weights;
    weights.scheme = scheme.name;
    weights.asks = scheme.asks;
    const std::string prefix = chosen_prefix(prefixes);
    weights.projection = projection_of(scheme, unwrapped, prefix);
    StateDict beside = pooling_beside(unwrapped, prefix);
    StateDict encoder = inside(std::move(unwrapped), prefix);
    encoder.merge(std::move(beside));
    weights.names = stored_names(encoder);
    if (const auto stored = encoder.find("rope_embed.periods"); stored != encoder.end())
      weights.periods = stored->second;
    weights.tensors = renamed_all(scheme, std::move(encoder));
    canonicalize(weights.tensors);
    return weights;
  }
  throw DataError(concat("tensor 'patch_embed.proj.weight' is missing: this is no ViT with names ",
                         "that timm, transformers or open_clip give (the first of its ",
                         unwrapped.size(), " tensors is '",
                         unwrapped.empty() ? "" : unwrapped.begin()->first, "')"));
}

namespace {

// Weights that lack the last norm are told apart from models that have none by these alone.
void expect_norm(const Architecture& source, Architecture& shown) {
  if (!shown.norm && !shown.fc_norm && (source.norm || source.fc_norm)) shown.norm = true;
}

Architecture as_named(Architecture shown, const std::string& name) {
  const Architecture& named = find_published(name).architecture;
  expect_norm(named, shown);
  require_same(shown, named, name);
  fill_unobservable_fields(named, shown);
  return shown;
}

Architecture as_configured(Architecture shown, const std::string& scheme,
                           const ModelConfig& config) {
  expect_norm(config.architecture, shown);
  require_same(shown, scheme, config);
  const BlockKind kind = shown.block;
  fill_unobservable_fields(config.architecture, shown);
  if (kind != BlockKind::kPreNorm) shown.block = kind;
  log_info(concat("weights: ", config.model, ", as '", config.file.string(), "' says"));
  return shown;
}

// Stored wavelengths must be those that the architecture gives; bfloat16 keeps 8 bits of them.
void check_periods(const torch::Tensor& stored, const Architecture& architecture) {
  if (!stored.defined()) return;
  if (architecture.rotary != Rotary::kDinov3)
    throw DataError(
        "the weights store 'rope_embed.periods', the wavelengths of DINOv3's rotary positions, "
        "and are taken for a model without such; name their own with --architecture");
  const torch::Tensor expected = periods(architecture);
  if (stored.sizes() == expected.sizes() &&
      torch::allclose(stored.to(torch::kFloat32), expected, 0.004, 0))
    return;
  const auto text = [](const torch::Tensor& values) {
    return values.dim() != 1 || values.size(0) == 0
               ? shape_text(values.sizes())
               : concat(values.size(0), " up to ", values.to(torch::kFloat32).max().item<float>());
  };
  throw DataError(concat("the weights store other wavelengths of rotary positions (", text(stored),
                         ") than ", architecture.heads, " heads and a temperature of ",
                         architecture.rotary_temperature, " give (", text(expected),
                         "); name their model with --architecture, or put its config.json next to "
                         "them"));
}

void apply_stated(const BackboneOptions& options, Architecture& architecture) {
  if (options.heads) {
    if (architecture.pool_heads == architecture.heads) architecture.pool_heads = *options.heads;
    architecture.heads = *options.heads;
  }
  if (options.activation) architecture.activation = *options.activation;
  check_heads(options, architecture);
}

}  // namespace

std::optional<Architecture> named_architecture(const BackboneOptions& options) {
  if (options.stated) return options.stated;
  if (!options.architecture.empty()) return find_published(options.architecture).architecture;
  if (options.weights.empty() || !options.module.empty()) return std::nullopt;
  const WeightFiles files = find_weight_files(options.weights);
  if (const auto config = read_model_config(files)) return config->architecture;
  return std::nullopt;
}

void check_heads(const BackboneOptions& options, const Architecture& architecture) {
  const auto divides = [&](std::int64_t heads) {
    return heads >= 1 && architecture.width % heads == 0;
  };
  const char* what = options.heads ? "--heads " : "the number of heads ";
  if (!divides(architecture.heads) ||
      (architecture.attention_pool && !divides(architecture.pool_heads)))
    throw ConfigError(concat(what, architecture.heads, " does not divide the weights' width of ",
                             architecture.width));
  const bool in_fours =
      architecture.rotary == Rotary::kAxial || architecture.rotary == Rotary::kDinov3;
  const std::int64_t head_width = architecture.width / architecture.heads;
  const bool in_thirds =
      architecture.rotary == Rotary::kVjepa2 || architecture.rotary == Rotary::kVjepa21;
  if (in_thirds && (head_width < 6 || head_width % 2 != 0))
    throw ConfigError(concat(what, architecture.heads, " makes heads of ", head_width,
                             " features; rotary positions of three axes need an even number from "
                             "6"));
  if (in_fours && head_width % 4 != 0)
    throw ConfigError(concat(what, architecture.heads, " makes heads of ", head_width,
                             " features; rotary positions need a multiple of 4"));
}

Architecture resolve_architecture(const CanonicalWeights& weights, const BackboneOptions& options,
                                  const std::optional<ModelConfig>& config) {
  Architecture shown = read_architecture(weights.tensors);
  if (!options.architecture.empty()) {
    shown = as_named(shown, options.architecture);
  } else if (config) {
    shown = as_configured(shown, weights.scheme, *config);
  } else if (weights.asks) {
    throw ConfigError(
        concat("the tensors have the names of ", weights.scheme,
               ", which several models share that differ in what tensors do not show; "
               "put the model's config.json next to the weights, or name the model "
               "with --architecture NAME (timm's)"));
  } else {
    shown = identify(shown, weights.names, {options.heads, options.activation});
  }
  apply_stated(options, shown);
  if (config && options.architecture.empty() && !options.heads && !config->warning.empty())
    log_warning(config->warning);
  check_periods(weights.periods, shown);
  return shown;
}

std::int64_t clip_frames_of(const BackboneOptions& options, const Architecture& architecture) {
  return options.clip_frames > 0 ? options.clip_frames : architecture.frames;
}

namespace {

// Positions of a clip's tokens that are not rotary are those of one length and size.
void check_clips(const BackboneOptions& options, const Architecture& architecture) {
  const std::int64_t frames = clip_frames_of(options, architecture);
  if (options.takes_blocks() && !architecture.takes_volumes())
    throw ConfigError(concat("--block: the backbone takes ",
                             architecture.takes_clips() ? "clips" : "images",
                             "; leave it out, or choose a backbone of volumes"));
  if (!options.takes_blocks() && architecture.takes_volumes())
    throw ConfigError(concat("the backbone takes volumes in blocks; give --block ",
                             architecture.position_steps * architecture.tubelet, " and --window"));
  if (!architecture.takes_clips()) {
    if (frames > 1)
      throw ConfigError(concat("--clip ", frames,
                               ": the backbone takes images; leave it out, or choose a backbone of "
                               "clips"));
    return;
  }
  const std::int64_t tubelet = architecture.tubelet;
  if (frames % tubelet != 0)
    throw ConfigError(
        concat("clips of ", frames, " frames (of --clip, or else of the config) do not ",
               "go with the backbone's patches of ", tubelet, " frames; give a multiple, --clip ",
               (frames / tubelet + 1) * tubelet));
  Grid fits = position_grid(architecture);
  if (architecture.sinusoid_grid > 0) {
    fits = Grid(architecture.sinusoid_grid);
    fits.steps = architecture.frames / tubelet;
  }
  const bool placed = architecture.positions || architecture.sinusoid_grid > 0;
  if (!placed || Grid(architecture, options.image_size, frames) == fits) return;
  if (architecture.takes_volumes()) {
    const std::int64_t side = fits.rows * architecture.patch;
    throw ConfigError(concat("blocks of ", frames, "×", options.image_size.height, "×",
                             options.image_size.width, " voxels do not go with the positions of ",
                             "these weights, which are of ", side, "×", side, "×", side,
                             "; give --block ", side));
  }
  throw ConfigError(concat("clips of ", frames, " frames of ", options.image_size,
                           " do not go with the positions of these weights, which number the "
                           "tokens of all frames; give --clip ",
                           fits.steps * tubelet, " and --image-size ",
                           fits.rows * architecture.patch));
}

}  // namespace

void check_options(const BackboneOptions& options, const Architecture& architecture) {
  const ImageSize& size = options.image_size;
  const std::int64_t patch = architecture.patch;
  std::vector<std::int64_t> sides{size.height, size.width};
  if (options.takes_blocks()) sides.push_back(options.block[0]);
  for (const std::int64_t side : sides)
    if (side < patch || side % patch != 0)
      throw ConfigError(concat(options.takes_blocks() ? "--block: " : "--image-size: ", side,
                               " is no multiple of the backbone's patch size ", patch,
                               "; the nearest are ", std::max(patch, side / patch * patch), " and ",
                               (side / patch + 1) * patch));
  if (architecture.relative_positions && Grid(size, patch) != Grid(architecture.position_grid))
    throw ConfigError(concat("--image-size ", size, " does not go with the relative positions of ",
                             "these weights; give --image-size ",
                             architecture.position_grid * patch));
  check_clips(options, architecture);
  check_features(options.features, architecture);
}

}  // namespace coldframe::vit
