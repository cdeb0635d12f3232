// --crop and the manifest's column `crop` as text.
#pragma once

#include <optional>
#include <string_view>

#include "extract/frames/frame.h"

namespace coldframe::frames {

inline constexpr const char* kCropHelp =
    "x,y,w,h in pixels or shares of the frame (50%, 100%-50), 'auto' or 'none'";

// "10,0,320,240", "50%,0,50%,100%-50" (the right half without the lowest 50 pixels), "auto" or
// "none". Nothing for any other text, a share beyond 100 %, a negative corner or an empty
// rectangle.
std::optional<CropRule> parse_crop(std::string_view text);

}  // namespace coldframe::frames
