// Uncompressed BMP images of 1, 4 and 8 bits with a palette, and of 24 and 32 bits.
#pragma once

#include <string_view>

#include "extract/frames/frame.h"
#include "extract/frames/image/header.h"

namespace coldframe::frames {

// `bytes` and `size`: what check_image() has taken. The fourth byte of 32 bits is dropped.
Image decode_bmp(std::string_view bytes, const ImageSize& size);

}  // namespace coldframe::frames
