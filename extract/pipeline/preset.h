// Presets: recipe, architecture and pooling of known backbones, each constant with its source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "extract/preprocess/preprocessing.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

struct Preset {
  std::string name;          // "retfound-green", "dino-vits16", …
  std::string architecture;  // a name of extract/vit/published
  // nullopt if the authors pool in more than one way: --pool is then required.
  std::optional<vit::Pooling> pooling;
  preprocess::Preprocessing preprocessing;
  std::string source;  // where the constants come from
};

const std::vector<Preset>& presets();
const Preset& find_preset(const std::string& name);  // ConfigError lists the names
std::string preset_names();                          // "retfound-green, dino-vits16, …"

}  // namespace coldframe::extract
