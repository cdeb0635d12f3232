#include "extract/vit/config/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/retry_policy.h"
#include "common/text/model_card.h"
#include "common/text/text.h"
#include "extract/vit/published/published.h"

namespace coldframe::vit {

// Values out of a config, with errors that name the key.

// Nothing where the key is missing or null. DataError: a value of another kind, or out of bounds.
std::optional<std::int64_t> whole_number(const Json& object, const char* key);
std::optional<double> number(const Json& object, const char* key);
// More than 0, and at most (or, for an epsilon, less than) 1.
std::optional<double> fraction(const Json& object, const char* key);
std::optional<double> epsilon(const Json& object, const char* key);
std::optional<bool> truth(const Json& object, const char* key);
std::optional<std::string> word(const Json& object, const char* key);
// True where the list under the key holds the word.
bool lists(const Json& object, const char* key, std::string_view word);
// One finite number for all channels, or three; deviations are more than 0.
std::optional<std::array<float, 3>> channels(const Json& object, const char* key);
std::optional<std::array<float, 3>> deviations(const Json& object, const char* key);
// A number, or a list of two equal ones: a side of square images or patches.
std::optional<std::int64_t> side(const Json& object, const char* key);
// The object under the key, an empty one where there is none.
Json inner(const Json& object, const char* key);

namespace {

namespace fs = std::filesystem;

ModelConfig read_kind(const Json& config) {
  if (!config.is_object()) throw DataError("it holds no object");
  if (config.contains("model_cfg")) return read_open_clip_config(config);
  if (config.contains("architecture")) return read_timm_config(config);
  return read_transformers_config(config);
}

// A config.json of something else may lie next to a single file.
bool is_of_a_model(const Json& config) {
  return config.is_object() && (config.contains("architecture") || config.contains("model_type") ||
                                config.contains("model_cfg"));
}

// Weights of open_clip have a config of their own name.
fs::path config_beside(const WeightFiles& weights) {
  const std::string name = weights.files.front().filename().string();
  const fs::path open_clip = weights.folder / "open_clip_config.json";
  const fs::path usual = weights.folder / "config.json";
  if (name.starts_with("open_clip") && fs::is_regular_file(status_of(open_clip))) return open_clip;
  if (fs::is_regular_file(status_of(usual))) return usual;
  return fs::is_regular_file(status_of(open_clip)) ? open_clip : fs::path();
}

// transformers' own order: a processor inside processor_config.json goes before a file of its own,
// and for clips, one of clips before one of images.
std::optional<PixelConfig> read_processor_in(const fs::path& folder, const std::string& model_type,
                                             bool clips) {
  const auto read = [&](const Json& json) { return read_image_processor(json, model_type); };
  const char* const inside = clips ? "video_processor" : "image_processor";
  if (const fs::path file = folder / "processor_config.json"; fs::is_regular_file(status_of(file)))
    if (const Json json = read_sorted_json_file(file); json.is_object() && json.contains(inside))
      return in_context(file.filename().string(), [&] { return read(json[inside]); });
  const fs::path of_clips = folder / "video_preprocessor_config.json";
  const fs::path file = clips && fs::is_regular_file(status_of(of_clips))
                            ? of_clips
                            : folder / "preprocessor_config.json";
  if (fs::is_regular_file(status_of(file)))
    return in_context(file.filename().string(), [&] { return read(read_sorted_json_file(file)); });
  return std::nullopt;
}

}  // namespace

std::optional<ModelConfig> read_model_config(const WeightFiles& weights) {
  const fs::path file = config_beside(weights);
  if (file.empty()) return std::nullopt;
  const Json json = read_sorted_json_file(file);  // tables of class names are long
  const bool in_a_folder = fs::is_directory(status_of(weights.given));
  if (!in_a_folder && !is_of_a_model(json)) return std::nullopt;
  return in_context(concat("config '", file.string(), "'"), [&]() -> std::optional<ModelConfig> {
    ModelConfig config = read_kind(json);
    config.file = file;
    if (!json.contains("model_type")) return config;
    if (auto pixels = read_processor_in(weights.folder, word(json, "model_type").value_or(""),
                                        config.architecture.frames > 1))
      config.pixels = *pixels;
    return config;
  });
}

namespace {

// YAML's lists of words, [a, b] or a line "- a" for each: "a, b".
std::string without_list(const std::string& value) {
  std::vector<std::string> words;
  for (const std::string& line : split(value, '\n'))
    words.push_back(trim(line.starts_with("- ") ? line.substr(2) : line));
  const std::string all = join(words, ", ");
  const bool bracketed = all.size() > 1 && all.front() == '[' && all.back() == ']';
  return bracketed ? trim(all.substr(1, all.size() - 2)) : all;
}

}  // namespace

std::string license_in_card(const WeightFiles& weights) {
  constexpr std::uint64_t kMaxCard = 1 << 20;  // bytes
  const fs::path file = weights.folder / "README.md";
  if (!fs::is_regular_file(status_of(file)) || fs::file_size(file) > kMaxCard) return "";
  const std::string text = read_text_file(file, kMaxCard);
  if (!is_valid_utf8(text)) return "";
  const ModelCard card = read_model_card(text);
  const std::string word = without_list(value_of(card, "license"));
  if (word != "other") return word;
  for (const char* key : {"license_name", "license_link"})
    if (const std::string more = value_of(card, key); !more.empty()) return more;
  return word;
}

void require_same(const Architecture& weights, const std::string& scheme,
                  const ModelConfig& config) {
  if (!config.scheme.empty() && scheme != config.scheme)
    throw DataError(concat("'", config.file.string(), "' is of ", config.model,
                           ", whose tensors have the names of ", config.scheme,
                           ", but these have the names of ", scheme,
                           "; put the config of these weights next to them, or name their model "
                           "with --architecture"));
  std::vector<std::string> differences;
  for (const std::string& key : config.compared) {
    const Field& field = *find_field(key);
    if (!field.same(weights, config.architecture))
      differences.push_back(concat(field.what, " ", field.text(weights), " instead of ",
                                   field.text(config.architecture)));
  }
  if (!differences.empty())
    throw DataError(concat("the weights are not of ", config.model, ", which '",
                           config.file.string(), "' names: they have ", join(differences, ", "),
                           "; put the config of these weights next to them, or name their model "
                           "with --architecture"));
}

namespace {

// nullptr where the key is missing or null.
const Json* find_value(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void refuse(const char* key, const Json& value, const char* expected) {
  throw DataError(concat("'", key, "' is ", value.dump().substr(0, 60), ", expected ", expected));
}

// In doubles, since numbers beyond 64 bits would wrap around.
bool is_whole(const Json& value) {
  return value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() <= 1'000'000;
}

}  // namespace

std::optional<std::int64_t> whole_number(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!is_whole(*value)) refuse(key, *value, "a whole number from 0 to 1000000");
  return value->get<std::int64_t>();
}

std::optional<double> number(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, *value, "a number");
  return value->get<double>();
}

std::optional<double> fraction(const Json& object, const char* key) {
  const auto value = number(object, key);
  if (value && !(*value > 0 && *value <= 1)) refuse(key, object[key], "more than 0 and at most 1");
  return value;
}

std::optional<double> epsilon(const Json& object, const char* key) {
  const auto value = number(object, key);
  if (value && !(*value > 0 && *value < 1)) refuse(key, object[key], "more than 0 and less than 1");
  return value;
}

std::optional<bool> truth(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> word(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, *value, "text");
  return value->get<std::string>();
}

bool lists(const Json& object, const char* key, std::string_view word) {
  const Json* value = find_value(object, key);
  return value != nullptr && value->is_array() &&
         std::ranges::find(*value, Json(word)) != value->end();
}

std::optional<std::array<float, 3>> channels(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return std::nullopt;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() != 1 && list.size() != 3) refuse(key, *value, "one number or three");
  std::array<float, 3> result{};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& channel = list[list.size() == 1 ? 0 : i];
    if (!channel.is_number()) refuse(key, *value, "one number or three");
    result[i] = static_cast<float>(channel.get<double>());
    if (!std::isfinite(result[i])) refuse(key, *value, "finite numbers");
  }
  return result;
}

std::optional<std::array<float, 3>> deviations(const Json& object, const char* key) {
  const auto values = channels(object, key);
  if (values && std::ranges::any_of(*values, [](float value) { return value <= 0; }))
    refuse(key, object[key], "numbers above 0");
  return values;
}

std::optional<std::int64_t> side(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr || !value->is_array()) return whole_number(object, key);
  if (value->size() != 2 || !is_whole((*value)[0]) || (*value)[0] != (*value)[1])
    refuse(key, *value,
           "a whole number from 0 to 1000000, or two equal ones: weights whose own positions or "
           "patches "
           "are oblong are not supported");
  return (*value)[0].get<std::int64_t>();
}

Json inner(const Json& object, const char* key) {
  const Json* value = find_value(object, key);
  if (value == nullptr) return Json::object();
  if (!value->is_object()) refuse(key, *value, "an object");
  return *value;
}

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
  // Files of timm before 0.9 have what is now in pretrained_cfg next to the architecture.
  read_pixels(json.contains("pretrained_cfg") ? inner(json, "pretrained_cfg") : json,
              config.pixels);
  return config;
}

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
    // What is after the trunk then is not the trunk's: asked for.
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

namespace {

// What a config leaves out where it is as usual, from transformers/models/*/configuration_*.py.
struct Kind {
  const char* type;  // model_type
  const char* activation;
  double epsilon;
  std::int64_t heads;
  const char* pool;
  Resampling resampling;
  const char* scheme;  // whose names its weights have (resolve_architecture.cpp)
};
constexpr const char *kVitNames = "transformers' ViT, BEiT or DINOv2",
                     *kDinov3Names = "transformers' DINOv3",
                     *kVjepa2Names = "transformers' V-JEPA 2",
                     *kClipNames = "transformers' CLIP or SigLIP";
constexpr Kind kKinds[] = {
    {"vit", "gelu", 1e-12, 12, "cls", Resampling::kBicubic, kVitNames},
    {"vit_mae", "gelu", 1e-12, 12, "cls", Resampling::kBicubic, kVitNames},
    {"deit", "gelu", 1e-12, 12, "cls", Resampling::kBicubic, kVitNames},
    {"ijepa", "gelu", 1e-12, 12, "mean", Resampling::kBicubic, kVitNames},
    {"beit", "gelu", 1e-12, 12, "mean", Resampling::kBicubic, kVitNames},
    {"dinov2", "gelu", 1e-6, 12, "cls", Resampling::kBicubic, kVitNames},
    {"dinov2_with_registers", "gelu", 1e-6, 12, "cls", Resampling::kBicubicAntialiased, kVitNames},
    {"dinov3_vit", "gelu", 1e-5, 6, "cls", Resampling::kBicubicAntialiased, kDinov3Names},
    {"clip_vision_model", "quick_gelu", 1e-5, 12, "cls", Resampling::kBicubic, kClipNames},
    {"siglip_vision_model", "gelu_pytorch_tanh", 1e-6, 12, "map", Resampling::kBicubic, kClipNames},
    {"siglip2_vision_model", "gelu_pytorch_tanh", 1e-6, 12, "map", Resampling::kBilinearAntialiased,
     kClipNames},
    {"videomae", "gelu", 1e-12, 12, "mean", Resampling::kBicubic, kVitNames},
    {"vjepa2", "gelu", 1e-6, 16, "mean", Resampling::kBicubic, kVjepa2Names},
};

// transformers/activations.py.
const std::map<std::string, Activation>& activations() {
  static const auto* table = new std::map<std::string, Activation>{
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"quick_gelu", Activation::kQuickGelu},
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu}};
  return *table;
}

Activation activation_of(const std::string& word) {
  const auto found = activations().find(word);
  if (found == activations().end())
    throw DataError(concat("'hidden_act' is '", word, "', which is not supported"));
  return found->second;
}

const Kind& kind_of(const std::string& type) {
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) {
    if (type == kind.type) return kind;
    known.emplace_back(kind.type);
  }
  throw DataError(concat("'model_type' is '", type, "', expected ", join(known, ", "),
                         ", or clip, siglip or siglip2 with one of them inside; export the model "
                         "to TorchScript and pass it as --backbone"));
}

// CLIP and its kin have the image encoder's config inside.
Json vision_config(const Json& json, std::string& type) {
  type = word(json, "model_type").value_or("");
  if (!json.contains("vision_config")) return json;
  Json vision = inner(json, "vision_config");
  type = word(vision, "model_type").value_or(type);
  if (!type.ends_with("_vision_model") && (type == "clip" || type.starts_with("siglip")))
    type += "_vision_model";
  return vision;
}

// A field that the weights show too, to be held against them.
void compare(const Json& json, const char* key, const char* field, ModelConfig& config) {
  const auto value = side(json, key);
  if (!value) return;
  find_field(field)->set(config.architecture, std::to_string(*value));
  config.compared.emplace_back(field);
}

void read_dinov3(const Json& json, Architecture& shape) {
  const Json rope = inner(json, "rope_parameters");
  shape.rotary = Rotary::kDinov3;
  shape.rotary_half = true;
  shape.rotary_temperature =
      number(rope, "rope_theta").value_or(number(json, "rope_theta").value_or(100));
  if (!(shape.rotary_temperature > 0))
    throw DataError(
        concat("'rope_theta' is ", shape.rotary_temperature, ", expected a number above 0"));
}

// The frames of a clip.
std::int64_t clip_length(const Json& json, const char* key, std::int64_t usual) {
  const std::int64_t frames = whole_number(json, key).value_or(usual);
  if (frames < 1 || frames > kMostClipFrames)
    throw DataError(concat("'", key, "' is ", frames, ", expected 1 to ", kMostClipFrames));
  return frames;
}

// Folders of VideoMAE-small are converted with 16 heads of 24 features, where its authors trained 6
// of 64 (MCG-NJU/VideoMAE, modeling_finetune.py).
std::string other_heads(const Architecture& shape) {
  constexpr std::int64_t kAuthorsWidth = 384, kAuthorsHeads = 6;
  if (shape.width != kAuthorsWidth || shape.heads == kAuthorsHeads || shape.heads < 1) return "";
  return concat("the config of this VideoMAE states ", shape.heads, " heads of ",
                shape.width / shape.heads,
                " features, and its authors' model of this width has 6 of 64; computing as the "
                "config states, as transformers does; --heads 6 computes as the authors do");
}

// The norm is the last one of the tokens, or with use_mean_pooling the classifier's, with torch's
// own epsilon, behind their mean; the encoder alone has none then.
void read_videomae(const Json& json, ModelConfig& config) {
  constexpr double kTorchEpsilon = 1e-5;
  Architecture& shape = config.architecture;
  const std::int64_t image = side(json, "image_size").value_or(224);
  shape.frames = clip_length(json, "num_frames", 16);
  shape.sinusoid_grid = image / std::max<std::int64_t>(shape.patch, 1);
  shape.norm = !truth(json, "use_mean_pooling").value_or(true);
  shape.fc_norm = !shape.norm && lists(json, "architectures", "VideoMAEForVideoClassification");
  shape.fc_norm_epsilon = kTorchEpsilon;
  shape.qkv_bias = truth(json, "qkv_bias").value_or(truth(json, "qv_bias").value_or(true));
  config.compared.emplace_back("qkv_bias");
  config.pixels.image_size = static_cast<int>(image);
  config.warning = other_heads(shape);
}

// Places are those of the input's own patches: transformers takes them from crop_size, which is
// right for clips of that size alone (VJEPA2RopeAttention.get_position_ids).
void read_vjepa2(const Json& json, ModelConfig& config) {
  Architecture& shape = config.architecture;
  shape.frames = clip_length(json, "frames_per_clip", 64);
  shape.rotary = Rotary::kVjepa2;
  shape.rotary_temperature = 10'000;
  shape.qkv_bias = truth(json, "qkv_bias").value_or(true);
  config.compared.emplace_back("qkv_bias");
  config.pixels.image_size = static_cast<int>(whole_number(json, "crop_size").value_or(256));
  shape.attention_pool = lists(json, "architectures", "VJEPA2ForVideoClassification");
  if (shape.attention_pool) config.pool = "map";
}

void read_parts(const Json& json, const Kind& kind, ModelConfig& config) {
  Architecture& shape = config.architecture;
  const std::string type = kind.type;
  if (type == "dinov3_vit") read_dinov3(json, shape);
  if (type == "videomae") read_videomae(json, config);
  if (type == "vjepa2") read_vjepa2(json, config);
  // transformers' Dinov2SwiGLUFFN takes SiLU whatever hidden_act says.
  if (truth(json, "use_swiglu_ffn").value_or(false)) shape.activation = Activation::kSilu;
  if (config.pool == "map" && !truth(json, "vision_use_head").value_or(true)) config.pool = "mean";
  // Its classifier averages what its two heads make of the class token and the distillation token.
  if (type == "deit" && lists(json, "architectures", "DeiTForImageClassificationWithTeacher"))
    config.pool = "prefix-mean";
  if (type == "beit" && !truth(json, "use_mean_pooling").value_or(true)) config.pool = "cls";
  shape.pool_heads = config.pool == "map" ? shape.heads : 0;
  shape.pool_activation = shape.activation;
}

// The parts that weights of this kind must show. A SigLIP without its attention pooling is one
// still.
void expect_parts(const Json& json, const std::string& type, ModelConfig& config) {
  Architecture& shape = config.architecture;
  const auto says = [&](const char* key) { return truth(json, key).value_or(false); };
  const bool siglip = type.starts_with("siglip"), beit = type == "beit";
  const bool dinov2 = type.starts_with("dinov2"), dinov3 = type == "dinov3_vit";
  const bool clips = type == "videomae" || type == "vjepa2";
  shape.class_token = type != "ijepa" && !siglip && !clips;
  shape.positions = !dinov3 && !clips && (!beit || says("use_absolute_position_embeddings"));
  shape.relative_positions =
      beit && (says("use_relative_position_bias") || says("use_shared_relative_position_bias"));
  shape.norm_pre = type == "clip_vision_model";
  shape.gated_mlp = (dinov2 && says("use_swiglu_ffn")) || (dinov3 && says("use_gated_mlp"));
  shape.layer_scale =
      dinov2 || dinov3 || (beit && number(json, "layer_scale_init_value").value_or(0.1) > 0);
  config.compared.insert(config.compared.end(), {"class_token", "positions", "relative_positions",
                                                 "norm_pre", "gated_mlp", "layer_scale"});
  if (!siglip) config.compared.emplace_back("attention_pool");
}

}  // namespace

ModelConfig read_transformers_config(const Json& json) {
  ModelConfig config;
  std::string type;
  const Json vision = vision_config(json, type);
  const Kind& kind = kind_of(type);
  config.model = concat("transformers' ", kind.type);
  config.scheme = kind.scheme;
  config.pool = kind.pool;
  config.projection = lists(json, "architectures", "CLIPModel") ||
                      lists(json, "architectures", "CLIPVisionModelWithProjection");
  Architecture& shape = config.architecture;
  compare(vision, "hidden_size", "width", config);
  compare(vision, "num_hidden_layers", "depth", config);
  compare(vision, "patch_size", "patch", config);
  compare(vision, "tubelet_size", "tubelet", config);
  compare(vision, "num_register_tokens", "registers", config);
  shape.heads = whole_number(vision, "num_attention_heads").value_or(kind.heads);
  shape.activation = activation_of(word(vision, "hidden_act").value_or(kind.activation));
  shape.norm_epsilon = epsilon(vision, "layer_norm_eps").value_or(kind.epsilon);
  shape.resampling = kind.resampling;
  read_parts(vision, kind, config);
  expect_parts(vision, type, config);
  if (const auto size = side(vision, "image_size"))
    config.pixels.image_size = static_cast<int>(*size);
  return config;
}

namespace {

constexpr const char* kElse =
    "; take the file away and give --image-size, --resize, --interpolation, --mean and --std";

// A processor of transformers 5 has these defaults where its file leaves them out
// (transformers/models/*/image_processing_*.py).
struct Processor {
  std::string_view name;  // before ImageProcessor, ImageProcessorFast or FeatureExtractor
  bool shortest;          // a lone number is the shortest edge's, not both edges'
  const char* defaults;
};
constexpr Processor kProcessors[] = {
    {"ViT", false, R"({"resample": 2, "size": 224, "image_mean": 0.5, "image_std": 0.5})"},
    {"DeiT", false, R"({"resample": 3, "size": 256, "do_center_crop": true, "crop_size": 224,
                        "image_mean": 0.5, "image_std": 0.5})"},
    {"Beit", false, R"({"resample": 3, "size": {"height": 224, "width": 224}, "crop_size": 224,
                        "image_mean": 0.5, "image_std": 0.5})"},
    {"CLIP", true, R"({"resample": 3, "size": 224, "do_center_crop": true, "crop_size": 224,
                       "image_mean": [0.48145466, 0.4578275, 0.40821073],
                       "image_std": [0.26862954, 0.26130258, 0.27577711]})"},
    {"Bit", true, R"({"resample": 3, "size": 224, "do_center_crop": true, "crop_size": 224,
                      "image_mean": [0.48145466, 0.4578275, 0.40821073],
                      "image_std": [0.26862954, 0.26130258, 0.27577711]})"},
    {"Siglip", true, R"({"resample": 3, "size": {"height": 224, "width": 224},
                         "image_mean": 0.5, "image_std": 0.5})"},
    {"DINOv3ViT", false, R"({"resample": 2, "size": 224, "image_mean": [0.485, 0.456, 0.406],
                             "image_std": [0.229, 0.224, 0.225]})"},
    // Without mean and std, of which the class has others (0.5) than its authors trained with: they
    // are asked for.
    {"VideoMAE", true, R"({"resample": 2, "size": 224, "do_center_crop": true, "crop_size": 224})"},
    {"VJEPA2", true, R"({"resample": 2, "do_center_crop": true, "crop_size": 256,
                         "image_mean": [0.485, 0.456, 0.406],
                         "image_std": [0.229, 0.224, 0.225]})"},
};

// models/auto/image_processing_auto.py: which processor a model has whose file names none.
const std::map<std::string, std::string_view>& processor_of_model() {
  static const auto* table =
      new std::map<std::string, std::string_view>{{"vit", "ViT"},
                                                  {"vit_mae", "ViT"},
                                                  {"ijepa", "ViT"},
                                                  {"deit", "DeiT"},
                                                  {"beit", "Beit"},
                                                  {"dinov2", "Bit"},
                                                  {"clip", "CLIP"},
                                                  {"clip_vision_model", "CLIP"},
                                                  {"siglip", "Siglip"},
                                                  {"siglip_vision_model", "Siglip"},
                                                  {"dinov3_vit", "DINOv3ViT"},
                                                  {"videomae", "VideoMAE"},
                                                  {"vjepa2", "VJEPA2"},
                                                  {"dinov2_with_registers", "Bit"}};
  return *table;
}

std::string bare_name(std::string type, const std::string& model_type) {
  if (type.empty()) {
    const auto found = processor_of_model().find(model_type);
    return found == processor_of_model().end() ? "" : std::string(found->second);
  }
  for (const std::string_view end :
       {"Fast", "ImageProcessor", "VideoProcessor", "FeatureExtractor"})
    if (type.ends_with(end)) type.erase(type.size() - end.size());
  return type == "BEiT" ? "Beit" : type;
}

const Processor& processor_named(const std::string& type, const std::string& model_type) {
  const std::string name = bare_name(type, model_type);
  std::vector<std::string> known;
  for (const Processor& processor : kProcessors) {
    if (name == processor.name) return processor;
    known.emplace_back(processor.name);
  }
  throw DataError(concat("'image_processor_type' is '", type, "', expected one of ",
                         join(known, ", "), " followed by ImageProcessor", kElse));
}

// transformers keeps a null, and takes a step of it for one that is not to be done; other nulls say
// nothing.
Json without_nulls(const Json& stated) {
  Json said = Json::object();
  for (const auto& [key, value] : stated.items()) {
    if (!value.is_null())
      said[key] = value;
    else if (key.starts_with("do_"))
      said[key] = false;
  }
  return said;
}

void refuse_other_steps(const Json& processor) {
  if (processor.contains("max_num_patches"))
    throw DataError(
        concat("'max_num_patches' is of images that keep their own shapes (SigLIP2 NaFlex), which "
               "is not supported; use a checkpoint for one size",
               kElse));
  if (!truth(processor, "do_resize").value_or(true))
    throw DataError(
        concat("'do_resize' is false: frames would have sizes of their own, which is "
               "not supported",
               kElse));
  for (const char* step : {"do_pad", "do_flip_channel_order", "do_thumbnail", "do_align_long_axis"})
    if (truth(processor, step).value_or(false))
      throw DataError(concat("'", step, "' is not supported", kElse));
  const double factor = number(processor, "rescale_factor").value_or(1 / 255.0);
  if (!truth(processor, "do_rescale").value_or(true) || std::abs(factor * 255 - 1) > 1e-6)
    throw DataError(concat("pixels are not scaled to 0…1, which is not supported", kElse));
}

std::optional<std::int64_t> square(const Json& size, const char* key) {
  const auto height = whole_number(size, "height"), width = whole_number(size, "width");
  if (height != width)
    throw DataError(concat("'", key, "' is ", size.dump().substr(0, 60),
                           ", and only squares are read from a processor's file", kElse));
  return height;
}

// `size` or `crop_size` as an object; a lone number is a square's unless it is the shortest edge's.
Json size_object(const Json& processor, const char* key, bool shortest) {
  if (!processor.contains(key)) return Json::object();
  if (processor[key].is_object()) return processor[key];
  const auto edge = side(processor, key);
  if (shortest && processor[key].is_number()) return {{"shortest_edge", *edge}};
  return {{"height", *edge}, {"width", *edge}};
}

// VJEPA2VideoProcessor has the shortest edge of 256 pixels for each 224 of the crop, whatever its
// file says.
void set_own_size(const Processor& kind, Json& processor) {
  if (kind.name != "VJEPA2") return;
  const auto crop = square(size_object(processor, "crop_size", false), "crop_size");
  if (crop) processor["size"] = {{"shortest_edge", *crop * 256 / 224}};
}

void read_size(const Json& processor, bool lone_is_shortest, PixelConfig& pixels) {
  const Json size = size_object(processor, "size", lone_is_shortest);
  const bool crops = truth(processor, "do_center_crop").value_or(false);
  const auto shortest = whole_number(size, "shortest_edge");
  for (const char* key : {"longest_edge", "max_height", "max_width", "min_pixels", "max_pixels"})
    if (size.contains(key))
      throw DataError(concat("'size' has '", key, "', which is not supported", kElse));
  if (shortest && !crops)
    throw DataError(
        "'size' states the shortest edge alone, without a crop: frames would have "
        "sizes of their own, which is not supported; give --image-size and --resize");
  const auto scaled = shortest ? shortest : square(size, "size");
  const auto target =
      crops ? square(size_object(processor, "crop_size", false), "crop_size") : scaled;
  if (!scaled || !target || *target < 1 || *target > 4096 || *scaled < *target)
    throw DataError(concat("'size' is ", size.dump().substr(0, 60),
                           ", expected height and width, "
                           "or the shortest edge and a 'crop_size' within"));
  pixels.image_size = static_cast<int>(*target);
  pixels.resize = shortest ? "shortest" : "squash";
  // Resizing goes to floor(size / crop_pct): a little less than the quotient keeps its floor.
  pixels.crop_pct = *scaled == *target
                        ? 1.0
                        : static_cast<double>(*target) / (static_cast<double>(*scaled) + 1e-6);
}

}  // namespace

PixelConfig read_image_processor(const Json& stated, const std::string& model_type) {
  if (!stated.is_object()) throw DataError("it holds no object");
  const Json said = without_nulls(stated);
  refuse_other_steps(said);
  const std::string type =
      word(said, "image_processor_type")
          .value_or(word(said, "video_processor_type")
                        .value_or(word(said, "feature_extractor_type").value_or("")));
  const Processor& kind = processor_named(type, model_type);
  Json processor = parse_json(kind.defaults, kind.name);
  processor.update(said);
  set_own_size(kind, processor);
  PixelConfig pixels;
  read_size(processor, kind.shortest, pixels);
  if (truth(processor, "do_normalize").value_or(true)) {
    pixels.mean = channels(processor, "image_mean");
    pixels.std = deviations(processor, "image_std");
  } else {
    pixels.mean = {{0, 0, 0}};
    pixels.std = {{1, 1, 1}};
  }
  // Pillow's numbers of filters.
  static const std::map<std::int64_t, std::string> filters{
      {0, "nearest"}, {1, "lanczos"}, {2, "bilinear"}, {3, "bicubic"}, {4, "box"}, {5, "hamming"}};
  const auto resample = filters.find(whole_number(processor, "resample").value_or(-1));
  pixels.interpolation =
      interpolation_word(resample == filters.end() ? "unknown" : resample->second);
  pixels.resampler = "transformers";
  return pixels;
}

}  // namespace coldframe::vit
