#include "extract/frames/clip/decoder.h"

#include <algorithm>
#include <new>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr std::int64_t kMaxClipPixels = 1 << 27;

// Limits what a file may claim for one frame. Plain black compresses some thousand times: small
// files get a free allowance, and no file of a few bytes takes gigabytes.
std::int64_t pixel_limit(std::uint64_t file_size) {
  constexpr std::uint64_t kFree = 1 << 22, kPerByte = 1 << 10;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(
      kMaxClipPixels, kFree + kPerByte * std::min<std::uint64_t>(file_size, kMaxClipPixels)));
}

// Limits what a file may claim for all frames together, so that no small file is read for hours: a
// thousand frames of 4K, or frames of 2 million pixels in 32 bytes each, which only a picture that
// stands still takes.
std::int64_t total_limit(std::uint64_t file_size) {
  constexpr std::uint64_t kFree = std::uint64_t{1} << 33, kPerByte = 1 << 16;
  return static_cast<std::int64_t>(kFree + kPerByte * std::min(file_size, std::uint64_t{1} << 40));
}

CodecPointer open_codec(const ClipInput& input) {
  const AVCodecParameters& parameters = *input.stream().codecpar;
  const AVCodec* decoder = avcodec_find_decoder(parameters.codec_id);
  const std::string name = avcodec_get_name(parameters.codec_id);
  if (decoder == nullptr) throw DataError(concat("its codec, ", name, ", is not known"));
  CodecPointer codec(avcodec_alloc_context3(decoder));
  if (!codec) throw std::bad_alloc();
  int status = avcodec_parameters_to_context(codec.get(), &parameters);
  codec->codec_whitelist = av_strdup(kClipCodecs);
  codec->max_pixels = pixel_limit(input.file().size());
  codec->pkt_timebase = input.stream().time_base;
  codec->thread_count = 1;                 // our decoders run side by side
  codec->flags |= AV_CODEC_FLAG_BITEXACT;  // else some interpolations are approximate
  if (status >= 0) status = avcodec_open2(codec.get(), decoder, nullptr);
  if (status < 0) {
    throw DataError(concat("its codec, ", name, ", cannot be opened (", ffmpeg_error(status),
                           "); convert it to H.264"));
  }
  return codec;
}

[[noreturn]] void refuse(int status) {
  if (status == AVERROR(ENOMEM)) {
    throw DataError(concat("it asks for more than the ", kMaxAllocation >> 20,
                           " MB that one picture may take"));
  }
  throw DataError(ffmpeg_error(status));
}

}  // namespace

ClipDecoder::ClipDecoder(std::shared_ptr<const ByteSource> file)
    : input_(std::move(file)),
      fields_(input_.stream()),
      codec_(open_codec(input_)),
      packet_(av_packet_alloc()),
      frame_(av_frame_alloc()) {
  if (!packet_ || !frame_) throw std::bad_alloc();
}

bool ClipDecoder::next() {
  for (;;) {
    const int status = avcodec_receive_frame(codec_.get(), frame_.get());
    if (status == AVERROR_EOF) return false;
    if (status >= 0) {
      refusals_ = 0;
      check_frame();
      return true;
    }
    if (status == AVERROR(EAGAIN))
      send_packet();
    else
      note_refusal(status);
  }
}

bool ClipDecoder::go_to(std::int64_t timestamp) {
  if (!input_.go_to(timestamp)) return false;
  avcodec_flush_buffers(codec_.get());
  fields_.restart();
  return true;
}

// False at the end, and where the container is damaged or ends within a packet: frames that the
// decoder still holds are whole.
bool ClipDecoder::read_packet() {
  if (!fault_.empty()) return false;
  try {
    return input_.read(*packet_);
  } catch (const DataError& error) {
    fault_ = error.what();
  }
  return false;
}

void ClipDecoder::note_packet() {
  const bool is_corrupt = (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0;
  if (fields_.completes(*packet_) && !packets_.empty()) {
    packets_.back().is_damaged = packets_.back().is_damaged || is_corrupt;
  } else {
    // Animations build each frame upon the one before, whatever their packets say.
    packets_.push_back(
        {packet_->pts != AV_NOPTS_VALUE ? packet_->pts : packet_->dts,
         !is_animation(*input_.stream().codecpar) && (packet_->flags & AV_PKT_FLAG_KEY) != 0,
         is_corrupt});
  }
  codec_->reordered_opaque = std::ssize(packets_) - 1;
}

void ClipDecoder::send_packet() {
  const bool is_packet = read_packet();
  if (is_packet) note_packet();
  if (!is_packet && fault_.empty() && ends_corrupt_) fault_ = "its data is cut off or damaged";
  ends_corrupt_ = is_packet && (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0;
  const int status = avcodec_send_packet(codec_.get(), is_packet ? packet_.get() : nullptr);
  if (status < 0) note_refusal(status);
}

// What the decoder refuses is the packet that it got last.
void ClipDecoder::note_refusal(int status) {
  constexpr int kMostRefusals = 1 << 16;
  if (status == AVERROR(ENOMEM) || packets_.empty() || ++refusals_ > kMostRefusals) refuse(status);
  packets_.back().is_damaged = true;
}

void ClipDecoder::check_frame() {
  pixels_ += std::int64_t{frame_->width} * frame_->height;
  const std::uint64_t size = input_.file().size();
  if (pixels_ > total_limit(size)) {
    throw DataError(concat("it holds more pixels than ", size, " bytes can show"));
  }
}

bool ClipDecoder::is_damaged() const {
  return frame_->decode_error_flags != 0 || (frame_->flags & AV_FRAME_FLAG_CORRUPT) != 0;
}

DecodedFacts ClipDecoder::facts() const {
  return {frame_->reordered_opaque,
          input_.has_clock() ? frame_->best_effort_timestamp : AV_NOPTS_VALUE, is_damaged(),
          frame_->pict_type == AV_PICTURE_TYPE_I ||
              (frame_->pict_type == AV_PICTURE_TYPE_NONE && frame_->key_frame != 0) ||
              is_intra_only()};
}

bool ClipDecoder::is_intra_only() const {
  const AVCodecDescriptor* codec = avcodec_descriptor_get(codec_->codec_id);
  return codec != nullptr && (codec->props & AV_CODEC_PROP_INTRA_ONLY) != 0 &&
         !is_animation(*input_.stream().codecpar);
}

}  // namespace coldframe::frames
