// JPEG images through libjpeg, as Pillow reads them.
#pragma once

#include <string_view>

#include "extract/frames/frame.h"
#include "extract/frames/image/header.h"

namespace coldframe::frames {

// RGB as Pillow's convert("RGB") gives it: the EXIF rotation is left alone; four colours (CMYK and
// YCCK) are taken to be stored inverted, as Adobe stores them, and no colour profile is applied.
// `size` is what check_image() found. DataError, without the file's name, for data that is damaged,
// also where libjpeg would make pixels up.
Image decode_jpeg(std::string_view bytes, const ImageSize& size);

}  // namespace coldframe::frames
