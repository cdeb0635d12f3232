// Converts a decoder's pictures to RGB, the right way up.
#pragma once

#include "extract/frames/clip/ffmpeg.h"
#include "extract/frames/frame.h"

namespace coldframe::frames {

// The turn that a player gives a picture, as a display matrix states it (ISO/IEC 14496-12, section
// 6.2.2): column x and row y of the stored picture are shown at column xx·x + yx·y and row xy·x +
// yy·y, moved into view. One entry of each row and column is ±1, the other 0.
struct Turn {
  int xx = 1, yx = 0, xy = 0, yy = 1;

  bool operator==(const Turn&) const = default;
};

// DataError, without the file's name, for angles that are no multiple of 90°.
Turn turn_of(const AVStream& stream);
Image turned(const Image& image, const Turn& turn);

class ClipConverter {
 public:
  explicit ClipConverter(const AVStream& stream);

  // Colours by the matrix and range that the stream states, BT.601 and the pixel format's range
  // where it states none (as OpenCV does since version 5); transparency is dropped. DataError: a
  // pixel format that cannot be converted.
  Image to_image(const AVFrame& picture);

 private:
  struct Colours {
    int width = 0, height = 0, format = 0;
    AVColorSpace matrix = AVCOL_SPC_UNSPECIFIED;
    AVColorRange range = AVCOL_RANGE_UNSPECIFIED;
    AVChromaLocation chroma = AVCHROMA_LOC_UNSPECIFIED;

    bool operator==(const Colours&) const = default;
  };
  void prepare(const AVFrame& picture);

  Turn turn_;
  SwsPointer scaler_;
  Colours colours_;  // that scaler_ was made for
};

}  // namespace coldframe::frames
