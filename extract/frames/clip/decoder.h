// The frames of a clip through FFmpeg's decoders: one packet after another, with exact times.
#pragma once

#include <cstddef>
#include <memory>

#include "extract/frames/clip/ffmpeg.h"
#include "extract/frames/clip/input.h"
#include "extract/frames/clip/picture.h"
#include "extract/frames/frame.h"

namespace coldframe::frames {

class ClipDecoder {
 public:
  // `file` as ClipInput takes it. DataError, without the file's name, here and below: a container
  // or codec that is not read, damaged headers, frames larger than their file can plausibly hold.
  explicit ClipDecoder(std::shared_ptr<const ByteSource> file);

  // Decodes the next frame in the order of presentation; false at the end. DataError for a frame
  // that does not decode without faults, and behind the last whole frame of a file that is cut off;
  // nothing can be read behind it.
  bool next();

  // Next comes the last key frame at or before `timestamp`, in the stream's units; false as
  // ClipInput::go_to().
  bool go_to(std::int64_t timestamp);

  // These tell of the frame that `next` decoded: its time in seconds on the container's clock (the
  // presentation time stamp), NaN if it has none, and its picture.
  double time_s() const;
  const AVFrame& picture() const { return *frame_; }

  // Converts this clip's pictures, and works on when the decoder is gone.
  ClipConverter converter() const { return ClipConverter(input_.stream()); }

 private:
  bool read_packet();
  void send_packet();
  void check_frame();

  ClipInput input_;
  CodecPointer codec_;
  PacketPointer packet_;
  FramePointer frame_;
  std::int64_t pixels_ = 0;  // of all frames so far
  std::string fault_;        // of the container, behind the packets that were read
};

}  // namespace coldframe::frames
