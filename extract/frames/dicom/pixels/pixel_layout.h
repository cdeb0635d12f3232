// The layout of a DICOM image's samples (PS3.3 C.7.6.3, the Image Pixel module).
#pragma once

#include <cstdint>
#include <string>

#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {

enum class Photometric { kMonochrome1, kMonochrome2, kPalette, kRgb, kYbrFull, kYbrPartial };

// The pixels that share a chroma sample in uncompressed data: one, two of a row, or two by two.
enum class Chroma { kOwn, kPairs, kSquares };

struct PixelLayout {
  int rows = 0, columns = 0, samples = 1;
  int bits_allocated = 8, bits_stored = 8, high_bit = 7;
  bool is_signed = false;
  bool planar = false;  // all red, then all green, then all blue
  PixelElement::Kind kind = PixelElement::Kind::kInteger;
  Photometric photometric = Photometric::kMonochrome2;
  Chroma chroma = Chroma::kOwn;
  std::int64_t frames = 0;  // as stated; 0: the header does not say

  std::uint64_t pixels() const { return static_cast<std::uint64_t>(rows) * columns; }
  bool is_grey() const {
    return photometric == Photometric::kMonochrome1 || photometric == Photometric::kMonochrome2;
  }
  // Bits of one uncompressed frame.
  std::uint64_t frame_bits() const {
    const std::uint64_t values = pixels() * samples;
    if (chroma == Chroma::kOwn) return values * bits_allocated;
    return (chroma == Chroma::kPairs ? values * 2 / 3 : values / 2) * bits_allocated;
  }
};

// DataError, without the file's name: no image, or one that the reader does not show.
PixelLayout read_layout(const DataSet& data);

// NumberOfFrames; 0 where it is absent, empty or 0. DataError for what is no number of frames.
std::int64_t stated_frames(DcmItem& root);

// Says what a data set that is no image is, for messages: "a structured report", "a segmentation",
// …; "" for an image. Masks and dose grids have pixels, which show what they were drawn on. Whoever
// names an image's file means it, though its modality be that of a document: kByClass.
enum class Judge { kByClass, kByClassAndModality };
std::string describe_other_object(const DataSet& data, Judge judge);

// An image of values that were computed from other images.
bool is_parametric_map(const DataSet& data);

}  // namespace coldframe::frames::dicom
