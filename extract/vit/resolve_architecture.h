// What wrappers put before the names of a model's tensors.
#pragma once

#include <optional>
#include <string_view>

#include "common/torch/safetensors.h"
#include "extract/vit/backbone.h"
#include "extract/vit/config/model_config.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

// Removes what wrappers put before each name (`module.` of DistributedDataParallel, `_orig_mod.` of
// torch.compile, `model.`, `encoder.`, `backbone.`), again and again as long as every name has it.
// `backbone.` need not be before every name: what lies outside the backbone is a head and left out.
StateDict strip_prefixes(StateDict tensors);
// The tensors whose names begin with `prefix`, without it; says how many others were left out.
StateDict inside(StateDict tensors, std::string_view prefix);

// A ViT's tensors under timm's names and in timm's shapes, whoever wrote them.

struct CanonicalWeights {
  StateDict tensors;
  std::string scheme;   // whose names they had
  bool asks = false;    // as in NamingScheme
  StoredNames names{};  // what else tells whose they are
  // A CLIP's projection of images, projection.weight [P, D] and projection.bias [P]; empty where
  // there is none.
  StateDict projection{};
  // Wavelengths of rotary positions, which facebookresearch/dinov3 stores; else undefined.
  torch::Tensor periods{};
};

// Finds whose names the tensors have and which of them are the image encoder's,
// renames these, and brings them into one form: queries, keys and values packed, with a bias of
// zeros where one of the three has none; gate and value of a gated perceptron packed; a
// distillation token as a register; a grey patch embedding spread over three channels. Leaves out
// what no feature depends on: classifiers, mask tokens, MAE's decoder, text encoders. DataError
// when no names are known, several encoders are found, or tensors of a form do not fit together.
CanonicalWeights canonical_names(StateDict tensors);

// Which ViT the weights are of: what they show, and what a name, a config or the published models
// say besides.

// options.architecture goes before the config, and the config before what all published models of
// the weights' shapes have in common (published/published.h); options.heads and options.activation
// go before all of them. DataError where the weights are of another shape than the name or the
// config says; ConfigError where nothing says what they do not show, and for heads that do not
// divide the width.
Architecture resolve_architecture(const CanonicalWeights& weights, const BackboneOptions& options,
                                  const std::optional<ModelConfig>& config);

// ConfigError for heads that do not divide the width, or not into what rotary positions need.
void check_heads(const BackboneOptions& options, const Architecture& architecture);

// ConfigError where options.image_size or options.features do not go with the architecture.
void check_options(const BackboneOptions& options, const Architecture& architecture);

}  // namespace coldframe::vit
