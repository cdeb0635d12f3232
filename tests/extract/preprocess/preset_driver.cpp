// Prints every preset as a JSON line, for the cross-check against timm's configuration.
#include <iostream>

#include "extract/pipeline/preset.h"
#include "tests/support/driver.h"

namespace coldframe::extract {
namespace {

int print_presets(const std::vector<std::string>&) {
  for (const Preset& preset : presets()) {
    const Json line{{"name", preset.name},
                    {"architecture", preset.architecture},
                    {"pooling", preset.pooling ? Json(word_for(vit::kPoolings, *preset.pooling))
                                               : Json(nullptr)},
                    {"preprocessing", preprocess::to_json(preset.preprocessing)},
                    {"source", preset.source}};
    std::cout << line.dump() << "\n";
  }
  return 0;
}

const testing::Driver kPresetDriver{"preset_driver", print_presets};

}  // namespace
}  // namespace coldframe::extract
