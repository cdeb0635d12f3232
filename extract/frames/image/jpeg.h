// JPEG images through libjpeg: read as Pillow reads them, and written.
#pragma once

#include <string>
#include <string_view>

#include "extract/frames/frame.h"
#include "extract/frames/image/header.h"

namespace coldframe::frames {

// RGB as Pillow's convert("RGB") gives it: turns that EXIF data state are left to others; four
// colours (CMYK and YCCK) are taken to be stored inverted, as Adobe stores them, and no colour
// profile is applied. `size` is what check_image() found. DataError, without the file's name, for
// data that is damaged, also where libjpeg would make pixels up.
Image decode_jpeg(std::string_view bytes, const FrameSize& size);

// A JPEG file (JFIF, baseline, without any metadata) of `quality` 1 … 100, as libjpeg counts it; of
// one component where red, green and blue are equal everywhere. DataError for an image that is
// empty or has an edge of more than 65500 pixels.
std::string encode_jpeg(const Image& image, int quality);

}  // namespace coldframe::frames
