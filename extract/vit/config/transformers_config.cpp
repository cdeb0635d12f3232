#include <array>
#include <map>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/config/json_values.h"
#include "extract/vit/config/kinds.h"

namespace coldframe::vit {

namespace {

// What a config leaves out where it is as usual, from transformers/models/*/configuration_*.py.
struct Kind {
  const char* type;  // model_type
  const char* activation;
  double epsilon;
  std::int64_t heads;
  const char* pool;
  Resampling resampling;
  const char* scheme;  // whose names its weights have (checkpoint/naming_schemes.cpp)
};
constexpr const char *kVitNames = "transformers' ViT, BEiT or DINOv2",
                     *kDinov3Names = "transformers' DINOv3",
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

void read_parts(const Json& json, const Kind& kind, ModelConfig& config) {
  Architecture& shape = config.architecture;
  const std::string type = kind.type;
  if (type == "dinov3_vit") read_dinov3(json, shape);
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
  shape.class_token = type != "ijepa" && !siglip;
  shape.positions = !dinov3 && (!beit || says("use_absolute_position_embeddings"));
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

}  // namespace coldframe::vit
