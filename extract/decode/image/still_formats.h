// Still images, and what other readers share with them: turning upright, depths and sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/decode/window.h"

namespace coldframe::frames {

// 1 … 8 as EXIF and TIFF count orientations (tag 274); 1, and everything else, is upright. Same
// result as Pillow's exif_transpose.
Image upright(Image image, int orientation);

// Chooses which values of an image map to black and white.

enum class Depth { k8, k16, kWide };  // kWide: signed, of 32 bits, or floats

// 8 bits are levels already, whatever the window. 16 bits: 0 to 65535 unless a window is asked for.
// Wider ones: from the min to the max of the exam.
struct ValueScale {
  Window window;
  Depth depth = Depth::k8;
  std::optional<ValueRange> surveyed = std::nullopt;  // over the exam's files, once it is known

  // The range must be computed from the values.
  bool wants_range() const {
    const bool from_values = window.kind == Window::Kind::kPercentiles ||
                             (window.kind == Window::Kind::kFile && depth == Depth::kWide);
    return depth != Depth::k8 && from_values && !surveyed;
  }

  ValueRange range() const {
    if (depth == Depth::k8) return {0, 255};
    if (surveyed) return *surveyed;
    if (window.kind == Window::Kind::kFixed) {
      return {window.center - window.width / 2, window.center + window.width / 2};
    }
    return {0, 65535};
  }
};

struct Image16 {
  int width = 0, height = 0, channels = 1;  // 1: grey; 3: RGB
  std::vector<std::uint16_t> values;        // [height, width, channels]
};

struct FrameSize {
  std::int64_t width = 0, height = 0;
};
void check_size(const FrameSize& size);  // DataError: empty, or larger than what is read

bool is_animated_png(std::string_view head);  // `head` reaches to the pixels

// A JPEG file (JFIF, baseline, without any metadata) of `quality` 1 … 100, as libjpeg counts it; of
// one component where red, green and blue are equal everywhere. DataError for an image that is
// empty or has an edge of more than 65500 pixels.
std::string encode_jpeg(const Image& image, int quality);

}  // namespace coldframe::frames
