// Packets of H.264 may hold a field, half of a frame's lines, each (ITU-T H.264, section 7.4.3,
// field_pic_flag).
#pragma once

#include "extract/frames/clip/ffmpeg.h"

namespace coldframe::frames {

class FieldPairs {
 public:
  explicit FieldPairs(const AVStream& stream);

  // True if this packet is of the frame that the one before began. Packets come in the order of
  // decoding; one whose header is damaged counts as of the same kind as those before it.
  bool completes(const AVPacket& packet);
  void restart() { awaited_ = false; }  // the next packet comes from elsewhere

 private:
  AVPictureStructure structure_of(const AVPacket& packet);

  CodecPointer codec_;  // null: each packet is a frame
  ParserPointer parser_;
  AVPictureStructure first_ = AV_PICTURE_STRUCTURE_UNKNOWN;  // of the frame that has begun
  AVPictureStructure key_begins_with_ = AV_PICTURE_STRUCTURE_UNKNOWN;  // in this stream
  bool awaited_ = false;                                               // the second field
  bool in_fields_ = false;  // the last frame was of fields
};

}  // namespace coldframe::frames
