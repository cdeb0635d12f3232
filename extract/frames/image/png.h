// PNG images through libpng, as Pillow reads them; those of 16 bits as numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/frames/image/header.h"

namespace coldframe::frames {

// Palettes are looked up, transparency is dropped, no gamma is applied. `size` is what
// check_image() found. DataError, without the file's name, for data that is damaged.
Image decode_png(std::string_view bytes, const FrameSize& size);

struct Image16 {
  int width = 0, height = 0, channels = 1;  // 1: grey; 3: RGB
  std::vector<std::uint16_t> values;        // [height, width, channels]
};
Image16 decode_deep_png(std::string_view bytes, const FrameSize& size);  // where is_deep_png()

}  // namespace coldframe::frames
