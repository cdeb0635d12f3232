#include "extract/vit/checkpoint/state_dict_names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::vit {

namespace {

constexpr std::array<std::string_view, 5> kWrappers = {"module.", "_orig_mod.", "model.",
                                                       "encoder.", "backbone."};
constexpr int kMaxWrappers = 8;  // more, and the names were made to waste time

struct Unsupported {
  std::string_view part;  // of a tensor's name
  std::string_view design;
};
constexpr Unsupported kUnsupported[] = {
    {"dist_token", "a distilled DeiT (it has a second class token)"},
    {"head_dist.", "a distilled DeiT (it has a second class token)"},
    {".mlp.w12.", "a SwiGLU MLP (DINOv2's giant)"},
    {".mlp.fc1_g.", "a SwiGLU MLP"},
    {".attn.q_norm.", "normalised queries and keys (qk-norm)"},
    {".attn.norm.", "a normalised attention output"},
    {".mlp.norm.", "a normalised MLP"},
    {"norm_pre.", "a norm before the blocks (CLIP)"},
    {"attn_pool.", "attention pooling (SigLIP)"},
    {"relative_position_bias_table", "relative positions (BEiT)"},
    {".attn.q_bias", "split query and value biases (BEiT, EVA)"},
    {"layers.0.blocks.", "windows (a Swin transformer)"},
};

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Keeps the names that begin with `prefix`, without it.
StateDict inside(StateDict tensors, std::string_view prefix) {
  StateDict kept;
  for (auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) kept.emplace(name.substr(prefix.size()), std::move(tensor));
  return kept;
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

// DeiT III: blocks.0.gamma_1 -> blocks.0.ls1.gamma.
std::string layer_scale_name(const std::string& name) {
  for (const char digit : {'1', '2'}) {
    const std::string old = concat(".gamma_", digit);
    if (name.ends_with(old))
      return concat(name.substr(0, name.size() - old.size()), ".ls", digit, ".gamma");
  }
  return name;
}

}  // namespace

StateDict strip_prefixes(StateDict tensors) {
  for (int round = 0; round < kMaxWrappers && !tensors.empty(); ++round) {
    for (const std::string_view prefix : kWrappers) {
      const auto count = static_cast<std::size_t>(
          std::count_if(tensors.begin(), tensors.end(),
                        [&](const auto& item) { return item.first.starts_with(prefix); }));
      if (count == 0 || (count < tensors.size() && prefix != "backbone.")) continue;
      if (count < tensors.size())
        log_info(concat("weights: left out ", plural(tensors.size() - count, "tensor"),
                        " outside 'backbone.'"));
      tensors = inside(std::move(tensors), prefix);
    }
  }
  return tensors;
}

StateDict checkpoint_filter(StateDict tensors) {
  for (const auto& [name, tensor] : tensors)
    for (const Unsupported& unsupported : kUnsupported)
      if (name.find(unsupported.part) != std::string::npos)
        throw DataError(concat("tensor '", name, "' belongs to ", unsupported.design,
                               ", which is not supported; export the model to TorchScript and pass "
                               "it as --backbone"));
  fold_class_position(tensors);
  StateDict kept;
  std::size_t decoder = 0;
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with("decoder_")) {
      ++decoder;
      continue;
    }
    // A classifier, and what only pre-training uses.
    if (starts_with_any(name, {"head.", "pre_logits."}) || name == "mask_token") continue;
    kept.emplace(layer_scale_name(name), std::move(tensor));
  }
  if (decoder > 0)
    log_info(concat("weights: left out ", plural(decoder, "tensor"), " of MAE's decoder"));
  return kept;
}

}  // namespace coldframe::vit
