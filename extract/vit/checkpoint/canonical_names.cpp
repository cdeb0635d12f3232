#include "extract/vit/checkpoint/canonical_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/canonical_forms.h"
#include "extract/vit/checkpoint/naming_schemes.h"
#include "extract/vit/checkpoint/state_dict_names.h"

namespace coldframe::vit {

namespace {

struct Unsupported {
  std::string_view part;  // of a tensor's name
  std::string_view design;
};
constexpr Unsupported kUnsupported[] = {
    {"layers.0.blocks.", "windows (a Swin transformer)"},
    {"layer1.0.conv1.", "convolutions (a ResNet)"},
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

StoredNames stored_names(const StateDict& tensors) {
  const auto any = [&](std::string_view end) {
    return std::ranges::any_of(tensors,
                               [&](const auto& item) { return item.first.ends_with(end); });
  };
  const bool dinov3 = tensors.contains("storage_tokens");  // facebookresearch/dinov3: EVA's parts
  return {dinov3 || any(".gamma_1"), dinov3 || any(".q_bias") || any(".q_proj.weight")};
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
    StateDict encoder = inside(std::move(unwrapped), prefix);
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

}  // namespace coldframe::vit
