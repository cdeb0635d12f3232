// The layout of a DICOM image's samples (PS3.3 C.7.6.3, the Image Pixel module).
#pragma once

#include <cstdint>
#include <string>

#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {

enum class Photometric { kMonochrome1, kMonochrome2, kPalette, kRgb, kYbrFull, kYbrFull422 };

struct PixelLayout {
  int rows = 0, columns = 0, samples = 1;
  int bits_allocated = 8, bits_stored = 8, high_bit = 7;
  bool is_signed = false;
  bool planar = false;  // all red, then all green, then all blue
  PixelElement::Kind kind = PixelElement::Kind::kInteger;
  Photometric photometric = Photometric::kMonochrome2;
  std::int64_t frames = 1;

  std::uint64_t pixels() const { return static_cast<std::uint64_t>(rows) * columns; }
  // Bits of one uncompressed frame. YBR_FULL_422 has two chroma samples for two pixels.
  std::uint64_t frame_bits() const {
    const int shared = photometric == Photometric::kYbrFull422 ? 2 : samples;
    return pixels() * shared * bits_allocated;
  }
};

// DataError, without the file's name: no image, or one that the reader does not show.
PixelLayout read_layout(const DataSet& data);

// Says what a data set without pixel data is, for messages: "a structured report", "a PDF", …
std::string describe_without_image(const DataSet& data);

}  // namespace coldframe::frames::dicom
