// Converts a decoder's pictures to RGB, the right way up.
#pragma once

#include <cstdint>
#include <span>

#include "extract/frames/clip/ffmpeg.h"
#include "extract/frames/frame.h"

namespace coldframe::frames {

// The orientation of a display matrix m (ISO/IEC 14496-12, section 6.2.2), as upright() takes it.
// The matrix shows column x and row y of the stored picture at column m[0]·x + m[3]·y and row
// m[1]·x + m[4]·y, moved into view. DataError, without the file's name, for angles that are not
// multiples of 90°.
int matrix_orientation(std::span<const std::int32_t, 9> matrix);

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

  int orientation_;  // as upright() takes it
  SwsPointer scaler_;
  Colours colours_;  // that scaler_ was made for
};

}  // namespace coldframe::frames
