// Converts a decoder's pictures to RGB, the right way up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "extract/frames/clip/ffmpeg.h"
#include "extract/frames/clip/input.h"
#include "extract/frames/frame.h"
#include "extract/frames/reader_options.h"

namespace coldframe::frames {

// The orientation of a display matrix m (ISO/IEC 14496-12, section 6.2.2), as upright() takes it.
// The matrix shows column x and row y of the stored picture at column m[0]·x + m[3]·y and row
// m[1]·x + m[4]·y, moved into view. DataError, without the file's name, for angles that are not
// multiples of 90°.
int matrix_orientation(std::span<const std::int32_t, 9> matrix);

// What a person should know of how the clip's pictures are shown, as Source::notes().
std::vector<std::string> notes_on(const ClipInput& input, bool is_interlaced,
                                  const ReaderOptions& options);

// Samples of more than 8 bits, to which a window applies.
bool is_deep(int pixel_format);

class ClipConverter {
 public:
  ClipConverter(const AVStream& stream, const ReaderOptions& options);

  // Colours by the matrix and range that the stream states, BT.601 and the pixel format's range
  // where it states none (as OpenCV does since version 5); transparency is dropped. With a range,
  // deep samples become black to white by it, in the numbers of their own bits; without, by all
  // that their bits can hold. DataError: a pixel format that cannot be converted.
  Image to_image(const AVFrame& picture);
  void set_range(const ValueRange& range) { range_ = range; }
  void survey(const AVFrame& picture, ValueSurvey& survey);  // of deep samples

 private:
  struct Colours {
    int width = 0, height = 0, format = 0;
    AVColorSpace matrix = AVCOL_SPC_UNSPECIFIED;
    AVColorRange range = AVCOL_RANGE_UNSPECIFIED;
    AVChromaLocation chroma = AVCHROMA_LOC_UNSPECIFIED;
    int to_width = 0, to_format = 0;

    bool operator==(const Colours&) const = default;
  };
  struct Rows {
    BytesPointer bytes;
    std::size_t stride = 0;
    int width = 0, height = 0;
  };
  void prepare(const AVFrame& picture, int to_width, int to_format);
  int shown_width(const AVFrame& picture) const;
  FramePointer without_fields(const AVFrame& picture) const;
  Rows convert(const AVFrame& picture, int to_format);
  template <typename Visit>
  void for_each_sample(const AVFrame& picture, const Visit& visit);

  int orientation_;           // as upright() takes it
  AVRational stated_aspect_;  // of a pixel, by the container; 0: it states none
  bool square_pixels_, deinterlace_;
  std::optional<ValueRange> range_;
  SwsPointer scaler_;
  Colours colours_;  // that scaler_ was made for
};

}  // namespace coldframe::frames
