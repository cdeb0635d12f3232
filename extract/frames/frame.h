// The value types between the readers and the preprocessing.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace coldframe::frames {

// 8-bit RGB, rows without padding: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

struct Frame {
  std::int64_t index = 0;                                    // position in its source
  double time_s = std::numeric_limits<double>::quiet_NaN();  // seconds since the source's first
                                                             // frame, NaN if unknown
  Image pixels;
};

}  // namespace coldframe::frames
