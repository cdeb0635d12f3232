// Computes which part of a frame, scaled to which size, lands where in the backbone's input:
// the arithmetic of torchvision's Resize and CenterCrop, of transformers', and of timm's crop
// modes.
#pragma once

#include <cstdint>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// One axis: the frame's `input` pixels are scaled to `scaled`; of these, `size` from `offset` on
// land at `target` in the output. What lies around them is border.
struct Axis {
  int input = 0;
  std::int64_t scaled = 0, offset = 0;
  int target = 0, size = 0;
};

struct Geometry {
  Axis x, y;
  bool vertical_first = false;  // the order of the resampler's two passes
};

// The whole image, scaled to width × height.
Geometry plan_whole(Resampler resampler, const frames::Image& image, int width, int height);

Geometry plan_geometry(const Preprocessing& preprocessing, int width, int height);

}  // namespace coldframe::preprocess
