// Which ViT the weights are of: what they show, and what a name, a config or the published models
// say besides.
#pragma once

#include <optional>

#include "extract/vit/backbone.h"
#include "extract/vit/checkpoint/names.h"
#include "extract/vit/config/model_config.h"

namespace coldframe::vit {

// options.architecture goes before the config, and the config before what all published models of
// the weights' shapes have in common (published/identify.h); options.heads and options.activation
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
