#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/config/json_values.h"
#include "extract/vit/config/kinds.h"

namespace coldframe::vit {

namespace {

// A plain CLIP image encoder may say this of itself (CLIPVisionCfg of open_clip/model.py); the rest
// makes it another one.
void refuse_variants(const Json& vision) {
  static const std::set<std::string> plain{"layers",        "width",         "head_width",
                                           "mlp_ratio",     "patch_size",    "image_size",
                                           "ls_init_value", "patch_dropout", "pool_type",
                                           "output_tokens", "pos_embed_type"};
  for (const auto& [key, value] : vision.items())
    if (!plain.contains(key) && value != Json(false) && !value.is_null())
      throw DataError(concat("'vision_cfg' has '", key, "', which is not supported"));
  if (!vision.contains("width") || !vision.contains("layers") || vision["layers"].is_array())
    throw DataError("'vision_cfg' is of no ViT");
}

std::string own_pool(const std::string& type) {
  if (type == "tok") return "cls";
  if (type == "avg") return "mean";
  throw DataError(concat("'pool_type' is '", type, "', expected tok or avg"));
}

void read_own_tower(const Json& model, const Json& vision, ModelConfig& config) {
  refuse_variants(vision);
  Architecture& shape = config.architecture;
  config.model = "open_clip's ViT";
  config.scheme = "open_clip";
  config.pool = own_pool(word(vision, "pool_type").value_or("tok"));
  config.projection = true;
  shape.width = *whole_number(vision, "width");
  shape.depth = *whole_number(vision, "layers");
  shape.patch = side(vision, "patch_size").value_or(16);
  config.compared = {"width", "depth", "patch"};
  const std::int64_t head_width = whole_number(vision, "head_width").value_or(64);
  if (head_width < 1 || shape.width % head_width != 0)
    throw DataError(
        concat("'head_width' ", head_width, " does not divide the width of ", shape.width));
  shape.heads = shape.width / head_width;
  shape.activation =
      truth(model, "quick_gelu").value_or(false) ? Activation::kQuickGelu : Activation::kGelu;
  shape.norm_epsilon = 1e-5;
}

std::string resize_word(const std::string& mode) {
  if (mode == "shortest" || mode == "squash") return mode;
  throw DataError(concat("'resize_mode' is '", mode, "', expected shortest or squash"));
}

}  // namespace

ModelConfig read_open_clip_config(const Json& json) {
  ModelConfig config;
  const Json model = inner(json, "model_cfg"), vision = inner(model, "vision_cfg");
  if (const auto name = word(vision, "timm_model_name")) {
    Json arguments = inner(vision, "timm_model_kwargs");
    const std::string pool = word(vision, "timm_pool").value_or("avg");
    const bool has_own = pool.starts_with("abs_attn") || pool.starts_with("rot_attn");
    if (!pool.empty() && !has_own) arguments["global_pool"] = pool;
    apply_timm_model(*name, arguments, config);
    const std::string projection = word(vision, "timm_proj").value_or("linear");
    // Nothing, or null, stands for the head of the trunk itself.
    config.projection = projection != "none" && projection != "mlp";
    // What is behind the trunk then is not the trunk's: asked for.
    if (has_own || projection == "mlp") config.pool.clear();
    config.scheme = "timm";
  } else {
    read_own_tower(model, vision, config);
  }
  const Json pixels = inner(json, "preprocess_cfg");
  const auto size = side(pixels, "size"), trained = side(vision, "image_size");
  if (size || trained) config.pixels.image_size = static_cast<int>(size ? *size : *trained);
  config.pixels.mean = channels(pixels, "mean");
  config.pixels.std = deviations(pixels, "std");
  config.pixels.interpolation =
      interpolation_word(word(pixels, "interpolation").value_or("bicubic"));
  config.pixels.resize = resize_word(word(pixels, "resize_mode").value_or("shortest"));
  config.pixels.resampler = "pillow";
  config.pixels.crop_pct = 1.0;
  return config;
}

}  // namespace coldframe::vit
