// The first directory of a TIFF file.
#pragma once

#include <string_view>

#include "extract/frames/image_header.h"

namespace coldframe::frames {

// DataError for several pages and for what would not come out as Pillow's pixels: other than 8
// bits, transparency, a rotation, JPEG inside.
ImageSize check_tiff(std::string_view bytes);

}  // namespace coldframe::frames
