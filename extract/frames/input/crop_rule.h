// --crop and the manifest's column `crop` as text.
#pragma once

#include <optional>
#include <string_view>

#include "extract/frames/frame.h"

namespace coldframe::frames {

inline constexpr const char* kCropHelp = "x,y,w,h in pixels, 'auto' or 'none'";

// "10,0,320,240", "auto" or "none". Nothing for any other text, a negative corner or an empty
// rectangle.
std::optional<CropRule> parse_crop(std::string_view text);

}  // namespace coldframe::frames
