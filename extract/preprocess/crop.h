// Cutting a rectangle out of a frame.
#pragma once

#include <string>

#include "extract/frames/frame.h"

namespace coldframe::preprocess {

std::string to_text(const frames::Rect& rect);      // "x,y,w,h"
std::string to_text(const frames::CropRule& rule);  // as well, or "auto" or "none"

// DataError when the rectangle does not lie within the image.
frames::Image crop_image(const frames::Image& image, const frames::Rect& rect);

}  // namespace coldframe::preprocess
