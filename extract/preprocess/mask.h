// --mask FILE: which pixels of a frame are kept; the others become black.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extract/frames/frame.h"

namespace coldframe::preprocess {

struct Mask {
  int width = 0, height = 0;
  std::vector<std::uint8_t> keep;  // [height, width] 0 or 1
  std::string digest;              // SHA-256 of size and `keep`, whatever file they came from
};

// White pixels are kept, black ones are not: a pixel counts as white when its brightest channel is
// 128 or more.
Mask make_mask(const frames::Image& image);

// DataError when the mask's size is not the frame's.
void apply_mask(const Mask& mask, frames::Image& frame);

}  // namespace coldframe::preprocess
