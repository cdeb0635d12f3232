// Decides which values of an image become black and white.
#pragma once

#include <optional>

#include "extract/frames/window.h"

namespace coldframe::frames {

enum class Depth { k8, k16, kWide };  // kWide: signed, of 32 bits, or floats

// 8 bits are levels already, whatever the window. 16 bits: 0 to 65535 unless a window is asked for.
// Wider ones: from the least to the greatest value of the exam.
struct ValueScale {
  Window window;
  Depth depth = Depth::k8;
  std::optional<ValueRange> surveyed = std::nullopt;  // over the exam's files, once it is known

  // The range is to be found in the values.
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

}  // namespace coldframe::frames
