// The shape of a plain ViT, as its weights or its name tell it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/files/json.h"
#include "common/torch/safetensors.h"

namespace coldframe::vit {

struct Architecture {
  std::int64_t patch = 16;          // pixels along a patch's side
  std::int64_t width = 384;         // features of a token
  std::int64_t depth = 12;          // blocks
  std::int64_t heads = 6;           // not to be seen in the weights
  std::int64_t mlp_hidden = 1536;   // features between a block's fc1 and fc2
  std::int64_t position_grid = 14;  // patches along the side of the image that pos_embed is for
  std::int64_t registers = 0;       // reg_token's rows
  bool class_token = true;
  bool prefix_positions = true;  // pos_embed has rows for class token and registers too
  bool layer_scale = false;
  bool qkv_bias = true;
  bool fc_norm = false;  // the norm comes after averaging (timm's fc_norm), not before (norm)

  std::int64_t prefix_tokens() const { return (class_token ? 1 : 0) + registers; }
};

Json to_json(const Architecture& architecture);

// Reads everything from the shapes of timm-named tensors; heads stay 0. DataError names the tensor
// that is missing or odd.
Architecture read_architecture(const StateDict& weights);

// Takes a timm model name, with or without a tag behind a dot (vit_small_patch16_224.dino).
// ConfigError lists the names.
Architecture named_architecture(const std::string& name);

// DataError when the weights are not of the named architecture, with every difference. The size of
// the images that pos_embed is for, the place of the norm and the heads may differ.
void require_same(const Architecture& weights, const Architecture& named, const std::string& name);

// `heads` if given, else the named architecture's, else width / 64 (ViT-H: 16). ConfigError if that
// is not whole.
std::int64_t choose_heads(const Architecture& weights, std::optional<std::int64_t> heads,
                          const std::string& name);

}  // namespace coldframe::vit
