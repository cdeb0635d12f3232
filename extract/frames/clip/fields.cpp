#include "extract/frames/clip/fields.h"

#include <new>

namespace coldframe::frames {

FieldPairs::FieldPairs(const AVStream& stream) {
  if (stream.codecpar->codec_id != AV_CODEC_ID_H264) return;
  codec_.reset(avcodec_alloc_context3(nullptr));
  parser_.reset(av_parser_init(AV_CODEC_ID_H264));
  if (!codec_ || !parser_) throw std::bad_alloc();
  avcodec_parameters_to_context(codec_.get(), stream.codecpar);
  parser_->flags |= PARSER_FLAG_COMPLETE_FRAMES;
}

AVPictureStructure FieldPairs::structure_of(const AVPacket& packet) {
  std::uint8_t* out = nullptr;
  int size = 0;
  av_parser_parse2(parser_.get(), codec_.get(), &out, &size, packet.data, packet.size, packet.pts,
                   packet.dts, packet.pos);
  return parser_->picture_structure;
}

bool FieldPairs::completes(const AVPacket& packet) {
  if (!parser_) return false;
  const AVPictureStructure structure = structure_of(packet);
  const bool is_unknown = structure == AV_PICTURE_STRUCTURE_UNKNOWN;
  const bool is_field = is_unknown ? in_fields_ : structure != AV_PICTURE_STRUCTURE_FRAME;
  const bool is_key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
  const bool begins_anew = is_key && !is_unknown && structure == key_begins_with_;
  if (awaited_ && is_field && !begins_anew && (is_unknown || structure != first_)) {
    awaited_ = false;
    return true;
  }
  if (is_key && is_field && key_begins_with_ == AV_PICTURE_STRUCTURE_UNKNOWN)
    key_begins_with_ = structure;
  first_ = structure;
  awaited_ = in_fields_ = is_field;
  return false;
}

}  // namespace coldframe::frames
