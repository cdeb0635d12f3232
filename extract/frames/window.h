// From values of any depth (16-bit images, DICOM, NIfTI) to the 8 bits of a frame.
#pragma once

#include <cstdint>
#include <string_view>

namespace coldframe::frames {

// --window: which values become black and white.
struct Window {
  enum class Kind {
    kFile,        // as the file says; where it says nothing, each reader states its rule
    kFixed,       // center ± width / 2
    kPercentiles  // of all values of the file
  };
  Kind kind = Kind::kFile;
  double center = 0, width = 0;   // kFixed, in the file's rescaled units (e.g. Hounsfield)
  double low = 0.5, high = 99.5;  // kPercentiles, in percent

  bool operator==(const Window&) const = default;
};

// "file", "C,W" (W > 0) or "L%,H%" (0 <= L < H <= 100). ConfigError for anything else.
Window parse_window(std::string_view text);
std::string_view window_help();

// Values up to `low` become 0, from `high` on 255, linear in between.
struct ValueRange {
  double low = 0, high = 255;
};

// Rounds half up, as a viewer does: floor(255 · (value − low) / (high − low) + 0.5). NaN becomes 0;
// an empty range (low >= high) is a step at `low`.
std::uint8_t to_level(double value, const ValueRange& range);

}  // namespace coldframe::frames
