#include "extract/vit/config/model_config.h"

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/vit/config/json_values.h"
#include "extract/vit/config/kinds.h"

namespace coldframe::vit {

namespace {

namespace fs = std::filesystem;

ModelConfig read_kind(const Json& config) {
  if (!config.is_object()) throw DataError("it holds no object");
  if (config.contains("model_cfg")) return read_open_clip_config(config);
  if (config.contains("architecture")) return read_timm_config(config);
  return read_transformers_config(config);
}

// A config.json of something else may lie beside a single file.
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

// transformers' own order: an image processor inside processor_config.json goes before
// preprocessor_config.json.
std::optional<PixelConfig> read_processor_in(const fs::path& folder,
                                             const std::string& model_type) {
  const auto read = [&](const Json& json) { return read_image_processor(json, model_type); };
  if (const fs::path file = folder / "processor_config.json"; fs::is_regular_file(status_of(file)))
    if (const Json json = read_sorted_json_file(file);
        json.is_object() && json.contains("image_processor"))
      return in_context(file.filename().string(), [&] { return read(json["image_processor"]); });
  if (const fs::path file = folder / "preprocessor_config.json";
      fs::is_regular_file(status_of(file)))
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
    if (auto pixels = read_processor_in(weights.folder, word(json, "model_type").value_or("")))
      config.pixels = *pixels;
    return config;
  });
}

void require_same(const Architecture& weights, const std::string& scheme,
                  const ModelConfig& config) {
  if (!config.scheme.empty() && scheme != config.scheme)
    throw DataError(concat("'", config.file.string(), "' is of ", config.model,
                           ", whose tensors have the names of ", config.scheme,
                           ", but these have the names of ", scheme,
                           "; put the config of these weights beside them, or name their model "
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
                           "; put the config of these weights beside them, or name their model "
                           "with --architecture"));
}

}  // namespace coldframe::vit
