// The config next to weights: their model and its preprocessing.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/text.h"
#include "extract/vit/architecture.h"
#include "extract/vit/checkpoint/checkpoint.h"

namespace coldframe::vit {

// Values are those of the command line's options; empty: not stated.
struct PixelConfig {
  std::optional<ImageSize> image_size{};
  std::optional<std::string> resize{};         // shortest, squash or pad
  std::optional<std::string> interpolation{};  // bicubic or bilinear
  std::optional<std::string> resampler{};      // pillow or torch
  std::optional<double> crop_pct{};
  std::optional<std::array<float, 3>> mean{}, std{};
};

struct ModelConfig {
  std::filesystem::path file;
  std::string model;          // in messages: "timm's vit_small_patch16_224"
  std::string scheme;         // the NamingScheme that the weights must have; "" if any will do
  Architecture architecture;  // as far as the config states it
  // The fields of `architecture` that names and shapes determine, too, and that the weights must
  // match.
  std::vector<std::string> compared;
  std::string pool;         // a value of --pool, "" if not stated
  bool projection = false;  // of these to the space that images share with texts
  PixelConfig pixels;
  std::string warning;  // for who computes with it; "": none
};

// Reads config.json of timm or of transformers (with its processor's file), or
// open_clip_config.json, whichever belongs to the weights; nullopt if there is none. DataError
// names the file, its content, and the unsupported part.
std::optional<ModelConfig> read_model_config(const WeightFiles& weights);

// The licence in the front matter of the model card next to the weights, README.md: the hub's word
// ("cc-by-nc-4.0"), or where that is "other", its name or its link; "" if none is stated.
std::string license_in_card(const WeightFiles& weights);

// DataError if the weights' shapes contradict the config, or if their naming `scheme` is not that
// of its library.
void require_same(const Architecture& weights, const std::string& scheme,
                  const ModelConfig& config);

// The kinds of config that read_model_config chooses from. Each throws DataError for unsupported
// content.

// timm's config.json: architecture, model_args and pretrained_cfg.
ModelConfig read_timm_config(const Json& config);

// The architecture of timm's model `name` with the arguments that timm.create_model takes.
void apply_timm_model(const std::string& name, const Json& arguments, ModelConfig& config);

// transformers' config.json, of an image encoder or of a model that has one.
ModelConfig read_transformers_config(const Json& config);

// transformers' preprocessor_config.json, or video_preprocessor_config.json, next to a config of
// this model_type. Missing values default to those of its class in transformers 5.
PixelConfig read_image_processor(const Json& stated, const std::string& model_type);

// open_clip_config.json.
ModelConfig read_open_clip_config(const Json& config);

// DataError for values that --interpolation does not support ("lanczos").
std::string interpolation_word(const std::string& word);

}  // namespace coldframe::vit
