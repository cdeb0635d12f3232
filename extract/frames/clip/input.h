// A clip's container, opened with FFmpeg on a file that we read ourselves: FFmpeg never sees a
// path, so that no content can make it open another file or an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/cli/kept_error.h"
#include "common/files/bytes/byte_source.h"
#include "extract/frames/clip/ffmpeg.h"

namespace coldframe::frames {

// The most bytes that FFmpeg may allocate for one thing, in all clips of the process: a picture of
// 2^27 pixels, or tables of the size that a container claims.
inline constexpr std::size_t kMaxAllocation = std::size_t{1} << 29;

class ClipInput {
 public:
  // DataError, without the file's name: no container that is read, or damaged headers.
  explicit ClipInput(std::shared_ptr<const ByteSource> file);
  ClipInput(const ClipInput&) = delete;
  ClipInput& operator=(const ClipInput&) = delete;

  const ByteSource& file() const { return *file_; }
  const char* demuxer() const { return format_->iformat->name; }
  // False for a stream without a container: its time stamps are made up by its reader.
  bool has_clock() const {
    const std::string_view name = demuxer();
    return name != "h264" && name != "hevc";
  }
  AVStream& stream() const { return *stream_; }  // the largest one of moving pictures
  int streams() const { return streams_; }       // of moving pictures

  // The stream's next packet; false at the end. DataError when the container is damaged.
  bool read(AVPacket& packet);
  // Goes to the last key frame at or before `timestamp`, in the stream's units. False where the
  // container cannot; then the place is unknown.
  bool go_to(std::int64_t timestamp);

 private:
  static int read_bytes(void* self, std::uint8_t* bytes, int size);
  static std::int64_t seek(void* self, std::int64_t offset, int whence);
  const AVInputFormat& demuxer_of() const;
  [[noreturn]] void refuse(const char* what, int status) const;
  void open();
  void choose_stream();

  std::shared_ptr<const ByteSource> file_;
  KeptError kept_;  // of what FFmpeg calls
  std::uint64_t position_ = 0;
  std::uint64_t bytes_left_ = 0;  // that may be read before the file counts as one without end
  IoPointer io_;
  FormatPointer format_;  // uses io_
  AVStream* stream_ = nullptr;
  int streams_ = 0;
};

// The names of the decoders that may run, for FFmpeg's own check; those of cameras, medical devices
// and usual conversions. Of FFmpeg's hundreds, the rest are seldom needed and seldom tested.
extern const char* const kClipCodecs;

}  // namespace coldframe::frames
