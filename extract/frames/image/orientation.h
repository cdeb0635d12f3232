// Turns images the right way up.
#pragma once

#include <string_view>

#include "extract/frames/frame.h"

namespace coldframe::frames {

// 1 … 8 as EXIF and TIFF count orientations (tag 274); 1, and everything else, is upright. The
// image comes out as Pillow's exif_transpose gives it.
Image upright(Image image, int orientation);

// What a JPEG file's EXIF data states; 1 where it states nothing, or nothing that can be read.
int exif_orientation(std::string_view jpeg);

}  // namespace coldframe::frames
