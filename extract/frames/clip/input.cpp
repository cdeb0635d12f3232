#include "extract/frames/clip/input.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <new>
#include <span>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/clip/container.h"

namespace coldframe::frames {
namespace {

constexpr int kBufferBytes = 1 << 16;

// Interleaved streams make a reader go back and forth; a container whose tables send it round in
// circles ends when it has read the file this many times.
constexpr std::uint64_t kMaxPasses = 64;
constexpr std::uint64_t kFreeBytes = 64 << 20;

constexpr std::size_t kHeadBytes = 4096;

}  // namespace

const char* const kClipCodecs =
    "h264,hevc,libdav1d,mpeg4,msmpeg4v1,msmpeg4v2,msmpeg4,mpeg1video,mpeg2video,h263,flv,mjpeg,vp8,"
    "vp9,theora,wmv1,wmv2,wmv3,vc1,gif,apng,png,rawvideo,msrle,msvideo1,cinepak,indeo3,indeo4,"
    "indeo5,svq1,svq3,qtrle,rpza,smc,dvvideo,prores,dnxhd,jpeg2000,ffv1,huffyuv,ffvhuff,utvideo,"
    "zlib,v210";

ClipInput::ClipInput(std::shared_ptr<const ByteSource> file) : file_(std::move(file)) {
  static std::once_flag settled;
  std::call_once(settled, [] {
    av_log_set_level(AV_LOG_QUIET);  // what goes wrong is reported by us, with the file's name
    av_max_alloc(kMaxAllocation);
  });
  bytes_left_ = kFreeBytes + kMaxPasses * file_->size();
  open();
  choose_stream();
}

int ClipInput::read_bytes(void* self, std::uint8_t* bytes, int size) {
  ClipInput& input = *static_cast<ClipInput*>(self);
  const std::size_t wanted = static_cast<std::size_t>(size);
  if (input.bytes_left_ < wanted) return AVERROR(ELOOP);
  return input.kept_.guard(AVERROR(EIO), [&] {
    const std::size_t count =
        input.file_->read_some(input.position_, std::as_writable_bytes(std::span(bytes, wanted)));
    input.position_ += count;
    input.bytes_left_ -= wanted;
    return count == 0 ? AVERROR_EOF : static_cast<int>(count);
  });
}

std::int64_t ClipInput::seek(void* self, std::int64_t offset, int whence) {
  ClipInput& input = *static_cast<ClipInput*>(self);
  constexpr std::int64_t kFailed = AVERROR(EINVAL);
  return input.kept_.guard(kFailed, [&] {
    const std::int64_t size = static_cast<std::int64_t>(input.file_->size());
    const int way = whence & ~AVSEEK_FORCE;
    if (way == AVSEEK_SIZE) return size;
    std::int64_t from = 0;
    if (way == SEEK_CUR) from = static_cast<std::int64_t>(input.position_);
    if (way == SEEK_END) from = size;
    std::int64_t target = 0;
    if (__builtin_add_overflow(from, offset, &target) || target < 0) return kFailed;
    input.position_ = static_cast<std::uint64_t>(target);
    return target;
  });
}

const AVInputFormat& ClipInput::demuxer_of() const {
  std::string head(kHeadBytes, '\0');
  head.resize(file_->read_some(0, std::as_writable_bytes(std::span(head))));
  const char* name = clip_demuxer(head);
  if (name == nullptr) name = stream_demuxer(head);
  const AVInputFormat* demuxer = name == nullptr ? nullptr : av_find_input_format(name);
  if (demuxer == nullptr) throw DataError("its container is of no known kind");
  if (std::string_view(name) == "apng") check_png_header(*file_);
  return *demuxer;
}

void ClipInput::refuse(const char* what, int status) const {
  kept_.rethrow();
  throw DataError(concat(what, ": ", ffmpeg_error(status)));
}

void ClipInput::open() {
  const AVInputFormat& demuxer = demuxer_of();
  auto* buffer = static_cast<unsigned char*>(av_malloc(kBufferBytes));
  if (buffer == nullptr) throw std::bad_alloc();
  io_.reset(avio_alloc_context(buffer, kBufferBytes, 0, this, read_bytes, nullptr, seek));
  format_.reset(avformat_alloc_context());
  if (!io_ || !format_) throw std::bad_alloc();
  format_->pb = io_.get();
  format_->codec_whitelist = av_strdup(kClipCodecs);
  AVFormatContext* format = format_.release();  // freed by FFmpeg when opening fails
  int status = avformat_open_input(&format, "", &demuxer, nullptr);
  if (status < 0) refuse("it cannot be opened", status);
  format_.reset(format);
  status = avformat_find_stream_info(format, nullptr);
  if (status < 0) refuse("its streams cannot be read", status);
}

// A small one beside is a thumbnail mostly.
void ClipInput::choose_stream() {
  const auto size = [](const AVStream* stream) {
    return std::int64_t{stream->codecpar->width} * stream->codecpar->height;
  };
  for (AVStream* stream : std::span(format_->streams, format_->nb_streams)) {
    const bool moves = stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                       !(stream->disposition & AV_DISPOSITION_ATTACHED_PIC);
    stream->discard = AVDISCARD_ALL;
    if (!moves) continue;
    ++streams_;
    if (stream_ == nullptr || size(stream) > size(stream_)) stream_ = stream;
  }
  if (stream_ == nullptr) throw DataError("it holds no moving pictures");
  stream_->discard = AVDISCARD_DEFAULT;
}

bool ClipInput::read(AVPacket& packet) {
  for (;;) {
    av_packet_unref(&packet);
    const int status = av_read_frame(format_.get(), &packet);
    if (status == AVERROR_EOF && !kept_) return false;
    if (status == AVERROR(ELOOP)) throw DataError("its container refers to itself in circles");
    if (status < 0) refuse("its container is damaged", status);
    if (packet.stream_index == stream_->index) return true;
  }
}

bool ClipInput::go_to(std::int64_t timestamp) {
  const int status = av_seek_frame(format_.get(), stream_->index, timestamp, AVSEEK_FLAG_BACKWARD);
  if (status < 0) kept_.rethrow();
  return status >= 0;
}

}  // namespace coldframe::frames
