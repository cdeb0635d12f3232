// Thumbnails of the frames, for inspection of a cache.
#pragma once

#include <string>

#include "extract/decode/frame.h"

namespace coldframe::extract {

inline constexpr int kSmallestThumbnail = 16, kLargestThumbnail = 512, kUsualThumbnail = 96;

// A JPEG file of the whole image, its longer edge scaled down to `side` pixels (never up), the
// other in proportion.
std::string make_thumbnail(const frames::Image& image, int side);

}  // namespace coldframe::extract
