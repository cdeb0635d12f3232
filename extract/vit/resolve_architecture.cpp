#include "extract/vit/resolve_architecture.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/vit/published/published.h"
#include "extract/vit/vit.h"

namespace coldframe::vit {

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
                         "); name their model with --architecture, or put its config.json beside "
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
               "put the model's config.json beside the weights, or name the model "
               "with --architecture NAME (timm's)"));
  } else {
    shown = identify(shown, weights.names, {options.heads, options.activation});
  }
  apply_stated(options, shown);
  check_periods(weights.periods, shown);
  return shown;
}

void check_options(const BackboneOptions& options, const Architecture& architecture) {
  const ImageSize& size = options.image_size;
  const std::int64_t patch = architecture.patch;
  for (const std::int64_t side : {size.height, size.width})
    if (side < patch || side % patch != 0)
      throw ConfigError(concat("--image-size: ", side,
                               " is no multiple of the backbone's patch size ", patch,
                               "; the nearest are ", std::max(patch, side / patch * patch), " and ",
                               (side / patch + 1) * patch));
  if (architecture.relative_positions && Grid(size, patch) != Grid(architecture.position_grid))
    throw ConfigError(concat("--image-size ", size, " does not go with the relative positions of ",
                             "these weights; give --image-size ",
                             architecture.position_grid * patch));
  check_features(options.features, architecture);
}

}  // namespace coldframe::vit
