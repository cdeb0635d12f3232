// Decodes a clip: packets to RGB pictures, and which frames are whole where data is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/clip/ffmpeg.h"
#include "extract/decode/clip/packets.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"

namespace coldframe::frames {

// Converts decoded pictures to RGB in upright orientation.

// The orientation of a display matrix m (ISO/IEC 14496-12, section 6.2.2), as upright() takes it.
// The matrix shows column x and row y of the stored picture at column m[0]·x + m[3]·y and row
// m[1]·x + m[4]·y, moved into view. DataError, without the file's name, for angles that are not
// multiples of 90°.
int matrix_orientation(std::span<const std::int32_t, 9> matrix);

// Notes for the user on how the clip's pictures are converted, as Source::notes().
std::vector<std::string> notes_on(const ClipInput& input, bool is_interlaced,
                                  const ReaderOptions& options);

// Samples of more than 8 bits, to which a window applies.
bool is_deep(int pixel_format);

class ClipConverter {
 public:
  ClipConverter(const AVStream& stream, const ReaderOptions& options);

  // Converts colours by the stream's matrix and range, default BT.601 and the pixel format's range
  // (as OpenCV does since version 5); drops transparency. Maps deep samples from black to white by
  // the given range, in units of their own bit depth; without one, by the full range of their bits.
  // DataError: a pixel format that cannot be converted.
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

// Determines which frames of a partly damaged clip are intact.

// Of a packet, or of both packets of a frame's fields; in decoding order.
struct PacketFacts {
  std::int64_t timestamp = 0;  // of presentation, in the stream's units; AV_NOPTS_VALUE: unknown
  bool is_key = false;         // frames from here on need none before it
  bool is_damaged = false;     // as the container says, or the decoder, which refused it
};

// A frame output by the decoder, in presentation order.
struct DecodedFacts {
  std::int64_t packet = -1;  // that it comes from; −1: unknown
  std::int64_t timestamp = 0;
  bool is_damaged = false;  // the decoder concealed errors
  bool is_intra = false;    // it refers to no other frame
};

struct ClipSlot {
  std::int64_t decoded = -1;  // the frame's index among the output; −1: it is lost
  std::int64_t timestamp = 0;
};

// The clip's frames in presentation order. Lost are frames from a damaged packet, in decoding
// order, up to the next intact key frame, and those presented before that key frame but decoded
// after it (open GOPs). If all frames are intra-coded (`intra_only`), only the damaged one is lost.
// Frames before the first key frame, as in a broadcast joined late, do not count.
std::vector<ClipSlot> slots_of(std::span<const PacketFacts> packets,
                               std::span<const DecodedFacts> decoded, bool intra_only);

// The frames of a clip through FFmpeg's decoders: one packet after another, with exact times.

class ClipDecoder {
 public:
  // `file` as ClipInput takes it. DataError, without the file's name, here and below: a container
  // or codec that is not read, damaged headers, frames larger than their file can plausibly hold.
  explicit ClipDecoder(std::shared_ptr<const ByteSource> file);

  // Decodes the next frame in presentation order; false at the end, and after the last readable
  // packet, for the reason in fault(). Continues after damaged packets: their frame is output with
  // concealed errors or dropped. DataError: excessive memory.
  bool next();
  const std::string& fault() const { return fault_; }  // of the container; "" for none
  bool is_damaged() const;                             // the frame that `next` decoded

  // Inputs of slots_of(): the packets so far, and the frame that `next` decoded.
  const std::vector<PacketFacts>& packets() const { return packets_; }
  DecodedFacts facts() const;
  bool is_intra_only() const;

  // Seeks to the last key frame at or before `timestamp`, in the stream's units; false as
  // ClipInput::go_to().
  bool go_to(std::int64_t timestamp);

  const AVFrame& picture() const { return *frame_; }  // of that frame
  const ClipInput& input() const { return input_; }

  // Converts this clip's pictures; outlives the decoder.
  ClipConverter converter(const ReaderOptions& options) const {
    return ClipConverter(input_.stream(), options);
  }

 private:
  bool read_packet();
  void send_packet();
  void note_packet();
  void note_refusal(int status);
  void check_frame();

  ClipInput input_;
  FieldPairs fields_;
  CodecPointer codec_;
  PacketPointer packet_;
  FramePointer frame_;
  std::int64_t pixels_ = 0;  // of all frames so far
  std::vector<PacketFacts> packets_;
  int refusals_ = 0;           // one after another
  bool ends_corrupt_ = false;  // the last packet, as the container says
  std::string fault_;          // of the container, after the packets that were read
};

}  // namespace coldframe::frames
