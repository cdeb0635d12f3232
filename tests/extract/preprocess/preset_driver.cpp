// Prints every preset as a JSON line, for the cross-check against timm's configuration.
#include <iostream>

#include "extract/plan/preset.h"

int main() {
  using namespace coldframe;
  for (const extract::Preset& preset : extract::presets()) {
    const Json line{{"name", preset.name},
                    {"architecture", preset.architecture},
                    {"pooling", preset.pooling ? Json(word_for(vit::kPoolings, *preset.pooling))
                                               : Json(nullptr)},
                    {"preprocessing", preprocess::to_json(preset.preprocessing)},
                    {"source", preset.source}};
    std::cout << line.dump() << "\n";
  }
}
