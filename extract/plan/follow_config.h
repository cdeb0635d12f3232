// A config beside the weights states pixels and pooling.
#pragma once

#include "extract/options/options.h"
#include "extract/vit/config/model_config.h"

namespace coldframe::extract {

// Sets preprocessing and pooling as the config says them, and its name; the rest stays as it is.
// ConfigError for words that no option knows.
void follow_config(const vit::ModelConfig& config, ExtractOptions& options);

}  // namespace coldframe::extract
