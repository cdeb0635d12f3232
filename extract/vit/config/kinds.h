// The kinds of config that read_model_config chooses from. Each throws DataError for what it does
// not understand.
#pragma once

#include "extract/vit/config/model_config.h"

namespace coldframe::vit {

// timm's config.json: architecture, model_args and pretrained_cfg.
ModelConfig read_timm_config(const Json& config);

// The architecture of timm's model `name` with the arguments that timm.create_model takes.
void apply_timm_model(const std::string& name, const Json& arguments, ModelConfig& config);

// transformers' config.json, of an image encoder or of a model that has one.
ModelConfig read_transformers_config(const Json& config);

// transformers' preprocessor_config.json beside a config of this model_type. What it leaves out is
// as its class has it in transformers 5.
PixelConfig read_image_processor(const Json& stated, const std::string& model_type);

// open_clip_config.json.
ModelConfig read_open_clip_config(const Json& config);

// DataError for what --interpolation does not know ("lanczos").
std::string interpolation_word(const std::string& word);

}  // namespace coldframe::vit
