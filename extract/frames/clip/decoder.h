// The frames of a clip through FFmpeg's decoders: one packet after another, with exact times.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "extract/frames/clip/damage.h"
#include "extract/frames/clip/ffmpeg.h"
#include "extract/frames/clip/fields.h"
#include "extract/frames/clip/input.h"
#include "extract/frames/clip/picture.h"
#include "extract/frames/frame.h"
#include "extract/frames/reader_options.h"

namespace coldframe::frames {

class ClipDecoder {
 public:
  // `file` as ClipInput takes it. DataError, without the file's name, here and below: a container
  // or codec that is not read, damaged headers, frames larger than their file can plausibly hold.
  explicit ClipDecoder(std::shared_ptr<const ByteSource> file);

  // Decodes the next frame in the order of presentation; false at the end, and behind the last
  // packet that can be read, for the reason in fault(). Damaged packets do not end it: a frame of
  // them comes out with pixels made up, or none does. DataError: what would take too much.
  bool next();
  const std::string& fault() const { return fault_; }  // of the container; "" for none
  bool is_damaged() const;                             // the frame that `next` decoded

  // What damage.h goes by: the packets so far, and the frame that `next` decoded.
  const std::vector<PacketFacts>& packets() const { return packets_; }
  DecodedFacts facts() const;
  bool is_intra_only() const;

  // Next comes the last key frame at or before `timestamp`, in the stream's units; false as
  // ClipInput::go_to().
  bool go_to(std::int64_t timestamp);

  const AVFrame& picture() const { return *frame_; }  // of that frame
  const ClipInput& input() const { return input_; }

  // Converts this clip's pictures, and works on when the decoder is gone.
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
  std::string fault_;          // of the container, behind the packets that were read
};

}  // namespace coldframe::frames
