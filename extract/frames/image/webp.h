// Still WebP images through libwebp.
#pragma once

#include <string_view>

#include "extract/frames/frame.h"
#include "extract/frames/image/header.h"

namespace coldframe::frames {

// Drops the transparency, as Pillow's convert("RGB") does. `size` is what check_image() found.
// DataError, without the file's name, for data that is damaged.
Image decode_webp(std::string_view bytes, const FrameSize& size);

}  // namespace coldframe::frames
