// The part of a bundle that makes features: weights, mask, and the options of `extract`.
#pragma once

#include <filesystem>
#include <string>

#include "common/files/json.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::bundle {

struct BackboneFiles {
  std::filesystem::path weights, mask;  // "": none
};

struct PackedBackbone {
  Json facts;           // kind, and the files' names within the bundle
  std::string options;  // extract.ini
};

// Copies the files into `folder`. DataError when they are not the recipe's, by their SHA-256;
// ConfigError when one is missing or one too many.
PackedBackbone pack_backbone(const temporal::ModelMetadata& card, const BackboneFiles& files,
                             const std::filesystem::path& folder);

// DataError for an extract.ini that sets anything but what PackedBackbone::options may.
void require_recipe_options(const std::string& text);

}  // namespace coldframe::bundle
