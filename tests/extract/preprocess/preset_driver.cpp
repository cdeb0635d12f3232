// Prints every preset as a JSON line, for the cross-check against timm's configuration.
#include <iostream>

#include "extract/plan/preset.h"

namespace {

// Here, so that the driver need not link the backbones for one word.
const char* word(coldframe::vit::Pooling pooling) {
  constexpr const char* kWords[] = {"cls", "mean", "cls+mean"};
  return kWords[static_cast<int>(pooling)];
}

}  // namespace

int main() {
  using namespace coldframe;
  for (const extract::Preset& preset : extract::presets()) {
    const Json line{{"name", preset.name},
                    {"architecture", preset.architecture},
                    {"pooling", word(preset.pooling)},
                    {"preprocessing", preprocess::to_json(preset.preprocessing)},
                    {"source", preset.source}};
    std::cout << line.dump() << "\n";
  }
}
