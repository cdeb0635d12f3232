// The value types between the readers and the preprocessing.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace coldframe::frames {

// No reader decodes a frame that is larger.
inline constexpr std::int64_t kMaxSide = 65535, kMaxPixels = std::int64_t{1} << 28;

// 8-bit RGB, rows without padding: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

// A rectangle in pixels of a frame; its right and bottom edges are outside.
struct Rect {
  int x = 0, y = 0, width = 0, height = 0;

  bool operator==(const Rect&) const = default;
};

// A length along an edge of a frame: a share of the edge, rounded down, and pixels.
struct CropLength {
  int pixels = 0;  // may be negative beside a share
  double percent = 0;

  int of(int edge) const { return static_cast<int>(edge * percent / 100) + pixels; }
  bool operator==(const CropLength&) const = default;
};

// The rule for which part of a frame is kept: --crop and the manifest's column `crop`.
struct CropRule {
  enum class Kind {
    kNone,   // all of it
    kFixed,  // what `edges` say
    kAuto    // what the file states as the image proper, else what preprocess/auto_crop.h finds
  };
  Kind kind = Kind::kNone;
  std::array<CropLength, 4> edges = {};  // x, y, width, height

  // kFixed: in a frame of this size; may reach beyond it.
  Rect rect_in(int width, int height) const {
    return {edges[0].of(width), edges[1].of(height), edges[2].of(width), edges[3].of(height)};
  }

  bool operator==(const CropRule&) const = default;
};

inline constexpr double kUnknownSpacing = std::numeric_limits<double>::quiet_NaN();

struct Frame {
  std::int64_t index = 0;                                    // position in its source
  double time_s = std::numeric_limits<double>::quiet_NaN();  // seconds since the source's first
                                                             // frame, NaN if unknown
  Image pixels;
  // Millimetres from row to row and from column to column, NaN if unknown.
  std::array<double, 2> spacing_mm{kUnknownSpacing, kUnknownSpacing};
  // The part that holds the image proper, where the file states it (DICOM ultrasound regions).
  std::optional<Rect> region = std::nullopt;
  // The share of its values that are finite numbers. NaN is shown black, an infinity as the least
  // or the greatest value is.
  double finite = 1;
  std::string fault = {};  // why it is lost, though those behind it are not; "" where it is there
};

}  // namespace coldframe::frames
