// The architecture of weights: tensors' names in timm's spelling, and what names, configs and
// shapes say.
#pragma once

#include <optional>
#include <string_view>

#include "common/torch/safetensors.h"
#include "extract/vit/backbone.h"
#include "extract/vit/config/model_config.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

// Prefixes that wrappers add to the names of a model's tensors.

// Removes wrapper prefixes (`module.` of DistributedDataParallel, `_orig_mod.` of torch.compile,
// `model.`, `encoder.`, `backbone.`) repeatedly, while every name has one. Not every name needs
// `backbone.`: tensors outside the backbone belong to a head and are dropped.
StateDict strip_prefixes(StateDict tensors);
// The tensors whose names begin with `prefix`, without it; logs how many others were dropped.
StateDict inside(StateDict tensors, std::string_view prefix);

// A ViT's tensors converted to timm's names and shapes.

struct CanonicalWeights {
  StateDict tensors;
  std::string scheme;   // the original naming scheme
  bool asks = false;    // as in NamingScheme
  StoredNames names{};  // further evidence of their origin
  // A CLIP's projection of images, projection.weight [P, D] and projection.bias [P]; empty if there
  // is none.
  StateDict projection{};
  // RoPE wavelengths as stored by facebookresearch/dinov3; else undefined.
  torch::Tensor periods{};
};

// Detects the naming scheme and the image encoder's tensors, renames these, and normalises them:
// packs queries, keys and values, with a zero bias if one of the three has none; packs gate and
// value of a gated MLP; turns a distillation token into a register; spreads a grey patch embedding
// over three channels. Drops what features do not depend on: classifiers, mask tokens, MAE's
// decoder, text encoders. DataError if no scheme is known, several encoders are found, or tensors
// are inconsistent.
CanonicalWeights canonical_names(StateDict tensors);

// Determines the architecture of weights from their shapes, a name, a config and the published
// models.

// Precedence: options.heads and options.activation, options.architecture, the config, then what all
// published models with the weights' shapes have in common (published/published.h). DataError if
// the weights' shapes contradict the name or the config; ConfigError if no source states a field
// that they do not determine, and for heads that do not divide the width.
Architecture resolve_architecture(const CanonicalWeights& weights, const BackboneOptions& options,
                                  const std::optional<ModelConfig>& config);

// The architecture that options, a published model's name or the config next to the weights says,
// in this order and without a look at the weights; nullopt where nothing says it.
std::optional<Architecture> named_architecture(const BackboneOptions& options);

// ConfigError for heads that do not divide the width, or whose width rotary positions do not
// support.
void check_heads(const BackboneOptions& options, const Architecture& architecture);

// Frames of the inputs: those that options state, else those of the clips that it was trained with;
// 1 for images.
std::int64_t clip_frames_of(const BackboneOptions& options, const Architecture& architecture);

// ConfigError if options.image_size, options.clip_frames or options.features are incompatible with
// the architecture.
void check_options(const BackboneOptions& options, const Architecture& architecture);

}  // namespace coldframe::vit
