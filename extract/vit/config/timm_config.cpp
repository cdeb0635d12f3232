#include <algorithm>
#include <array>
#include <map>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/config/json_values.h"
#include "extract/vit/config/kinds.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

namespace {

// What an argument of timm.create_model changes: these fields are as the weights show them, not as
// the named model has them.
const std::map<std::string, std::vector<std::string>>& shown_by_weights() {
  static const auto* table = new std::map<std::string, std::vector<std::string>>{
      {"img_size", {}},
      {"patch_size", {"patch"}},
      {"embed_dim", {"width", "mlp_hidden", "pool_hidden"}},
      {"depth", {"depth"}},
      {"mlp_ratio", {"mlp_hidden"}},
      {"qkv_bias", {"qkv_bias"}},
      {"qk_norm", {"qk_norm"}},
      {"init_values", {"layer_scale"}},
      {"class_token", {"class_token", "prefix_positions"}},
      {"no_embed_class", {"prefix_positions"}},
      {"reg_tokens", {"registers", "prefix_positions"}},
      {"num_reg_tokens", {"registers", "prefix_positions"}},
      {"pre_norm", {"norm_pre", "patch_bias"}},
      {"global_pool", {"attention_pool", "pool_hidden"}},
  };
  return *table;
}

// No feature depends on these.
constexpr std::array<std::string_view, 16> kWithoutEffect = {
    "num_classes",      "in_chans",        "drop_rate",       "pos_drop_rate",
    "patch_drop_rate",  "proj_drop_rate",  "attn_drop_rate",  "drop_path_rate",
    "dynamic_img_size", "dynamic_img_pad", "strict_img_size", "weight_init",
    "fix_init",         "head_init_scale", "fc_norm",         "features_only"};

std::string pool_word(const std::string& timm) {
  if (timm == "token") return "cls";
  if (timm == "avg") return "mean";
  if (timm == "map") return "map";
  if (timm.empty()) return "";
  throw DataError(concat("'global_pool' is '", timm, "', expected token, avg or map"));
}

void set_activation(const std::string& timm, ModelConfig& config) {
  const auto activation = value_for(kActivations, timm);
  if (!activation)
    throw DataError(
        concat("'act_layer' is '", timm, "', expected ", join(words_in(kActivations), ", ")));
  config.architecture.activation = *activation;
}

void apply_argument(const std::string& key, const Json& arguments, ModelConfig& config) {
  if (arguments[key].is_null()) return;  // timm leaves these out
  const auto shown = shown_by_weights().find(key);
  if (shown != shown_by_weights().end()) {
    for (const std::string& field : shown->second) std::erase(config.compared, field);
    side(arguments, "img_size");  // squares only
    // A distilled DeiT has the mean of its two tokens whatever its global_pool.
    if (key == "global_pool" && config.pool != "prefix-mean")
      config.pool = pool_word(word(arguments, "global_pool").value_or(""));
  } else if (key == "num_heads") {
    config.architecture.heads = whole_number(arguments, "num_heads").value_or(0);
    if (config.architecture.attention_pool)
      config.architecture.pool_heads = config.architecture.heads;
  } else if (key == "act_layer") {
    set_activation(word(arguments, "act_layer").value_or("gelu"), config);
  } else if (std::ranges::find(kWithoutEffect, key) == kWithoutEffect.end()) {
    throw DataError(concat("'model_args' has '", key,
                           "', which is not understood; name the model "
                           "with --architecture, or export it to TorchScript and pass it as "
                           "--backbone"));
  }
}

void read_pixels(const Json& config, PixelConfig& pixels) {
  if (config.contains("input_size")) {
    const Json& size = config["input_size"];
    const auto is_side = [](const Json& side) {
      return side.is_number_integer() && side >= 1 && side <= 4096;
    };
    if (!size.is_array() || size.size() != 3 || !is_side(size[1]) || !is_side(size[2]))
      throw DataError(
          concat("'input_size' is ", size.dump().substr(0, 60), ", expected [3, height, width]"));
    pixels.image_size = ImageSize(size[1].get<std::int64_t>(), size[2].get<std::int64_t>());
  }
  pixels.mean = channels(config, "mean");
  pixels.std = deviations(config, "std");
  pixels.crop_pct = fraction(config, "crop_pct");
  pixels.resampler = "pillow";
  if (const auto interpolation = word(config, "interpolation"))
    pixels.interpolation = interpolation_word(*interpolation);
  const std::string mode = word(config, "crop_mode").value_or("center");
  static const std::map<std::string, std::string> resizes{
      {"center", "shortest"}, {"squash", "squash"}, {"border", "pad"}};
  const auto resize = resizes.find(mode);
  if (resize == resizes.end())
    throw DataError(concat("'crop_mode' is '", mode, "', expected center, squash or border"));
  pixels.resize = resize->second;
}

}  // namespace

std::string interpolation_word(const std::string& word) {
  if (word == "bicubic" || word == "bilinear") return word;
  throw DataError(concat("the interpolation '", word,
                         "' is not supported; expected bicubic or "
                         "bilinear"));
}

void apply_timm_model(const std::string& name, const Json& arguments, ModelConfig& config) {
  const Published& model = find_published(name);
  config.model = concat("timm's ", model.name);
  config.architecture = model.architecture;
  config.pool = model.pool;
  config.pixels.image_size = static_cast<int>(model.image);
  for (const Field& field : fields())
    if (field.shown && field.key != "position_grid" && field.key != "norm" &&
        field.key != "fc_norm")
      config.compared.emplace_back(field.key);
  for (const auto& [key, value] : arguments.items()) apply_argument(key, arguments, config);
  if (config.pool.empty()) config.pool = model.architecture.class_token ? "cls" : "mean";
  if (const auto size = side(arguments, "img_size"))
    config.pixels.image_size = static_cast<int>(*size);
}

ModelConfig read_timm_config(const Json& json) {
  ModelConfig config;
  Json arguments = inner(json, "model_args");
  if (!arguments.contains("global_pool") && word(json, "global_pool"))
    arguments["global_pool"] = json["global_pool"];
  apply_timm_model(word(json, "architecture").value_or(""), arguments, config);
  // Files of timm before 0.9 have what is now in pretrained_cfg beside the architecture.
  read_pixels(json.contains("pretrained_cfg") ? inner(json, "pretrained_cfg") : json,
              config.pixels);
  return config;
}

}  // namespace coldframe::vit
