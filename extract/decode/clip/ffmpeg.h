// FFmpeg's objects as owned pointers, and its error codes in words.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
}

namespace coldframe::frames {

// Each of FFmpeg's free functions takes the address of the pointer and clears it.
template <auto free_function>
struct FfmpegDeleter {
  template <typename T>
  void operator()(T* object) const noexcept {
    free_function(&object);
  }
};

using FormatPointer = std::unique_ptr<AVFormatContext, FfmpegDeleter<avformat_close_input>>;
using CodecPointer = std::unique_ptr<AVCodecContext, FfmpegDeleter<avcodec_free_context>>;
using PacketPointer = std::unique_ptr<AVPacket, FfmpegDeleter<av_packet_free>>;
using FramePointer = std::unique_ptr<AVFrame, FfmpegDeleter<av_frame_free>>;

using ParserPointer =
    std::unique_ptr<AVCodecParserContext,
                    decltype([](AVCodecParserContext* parser) { av_parser_close(parser); })>;
using BytesPointer = std::unique_ptr<std::uint8_t, decltype([](void* bytes) { av_free(bytes); })>;

struct SwsDeleter {
  void operator()(SwsContext* scaler) const noexcept { sws_freeContext(scaler); }
};
using SwsPointer = std::unique_ptr<SwsContext, SwsDeleter>;

struct IoDeleter {
  void operator()(AVIOContext* io) const noexcept {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
};
using IoPointer = std::unique_ptr<AVIOContext, IoDeleter>;

// Each frame builds upon the one before, and a pause is meant.
inline bool is_animation(const AVCodecParameters& codec) {
  return codec.codec_id == AV_CODEC_ID_GIF || codec.codec_id == AV_CODEC_ID_APNG;
}

inline std::string ffmpeg_error(int code) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(code, text.data(), text.size());
  return text.data();
}

}  // namespace coldframe::frames
