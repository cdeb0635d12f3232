// A clip as packets: its container, its input by FFmpeg, fields, times, and the order of packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "extract/decode/clip/ffmpeg.h"

namespace coldframe::frames {

// Detects a clip's container and checks its stated length, before decoding.

// FFmpeg's name of the demuxer for a file that starts with `head`; null if it is no clip.
const char* clip_demuxer(std::string_view head);

// The same for a stream without a container, H.264 or HEVC, as DICOM files hold it.
const char* stream_demuxer(std::string_view head);

// DataError, without the file's name, when the file ends before its container does: GIF (trailer
// block), PNG (last chunk), AVI (RIFF size), MP4 and QuickTime (box sizes), Matroska and WebM
// (segment size). Formats that state no length (MPEG streams, Ogg) pass.
void check_container(const ByteSource& file);

// DataError as above when a chunk before an animated PNG's first frame is longer than the file:
// FFmpeg allocates what such a chunk claims to hold.
void check_png_header(const ByteSource& file);

// A clip's container, opened with FFmpeg on a file that we read ourselves: FFmpeg never sees a
// path, so that no content can make it open another file or an address.

// Max bytes of a single FFmpeg allocation, for all clips of the process: a picture of 2^27 pixels,
// or tables of the size that a container claims.
inline constexpr std::size_t kMaxAllocation = std::size_t{1} << 29;

class ClipInput {
 public:
  // DataError, without the file's name: no container that is read, or damaged headers.
  explicit ClipInput(std::shared_ptr<const ByteSource> file);
  ClipInput(const ClipInput&) = delete;
  ClipInput& operator=(const ClipInput&) = delete;

  const ByteSource& file() const { return *file_; }
  const char* demuxer() const { return format_->iformat->name; }
  // False for a stream without a container, whose reader invents its time stamps.
  bool has_clock() const {
    const std::string_view name = demuxer();
    return name != "h264" && name != "hevc";
  }
  AVStream& stream() const { return *stream_; }  // the largest one of moving pictures
  int streams() const { return streams_; }       // of moving pictures

  // The stream's next packet; false at the end. DataError if the container is damaged.
  bool read(AVPacket& packet);
  // Seeks to the last key frame at or before `timestamp`, in the stream's units. False if the
  // container cannot seek; the position is then unknown.
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
// and usual conversions. FFmpeg's hundreds of others are rarely needed and rarely tested.
extern const char* const kClipCodecs;

// Packets of H.264 may hold a field, half of a frame's lines, each (ITU-T H.264, section 7.4.3,
// field_pic_flag).

class FieldPairs {
 public:
  explicit FieldPairs(const AVStream& stream);

  // True if this packet continues the frame that the previous one began. Packets come in decoding
  // order; one with a damaged header counts as the same kind as those before it.
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

// Derives a clip's frames from its packets without decoding.

struct ClipPacket {  // of a frame; of both, where two packets hold its fields
  std::int64_t timestamp = AV_NOPTS_VALUE;  // in the stream's units
  bool is_key = false;
};

struct ClipPackets {
  std::vector<ClipPacket> shown;  // in presentation order; those without a time come last
  std::string fault;              // what is wrong with the container; "" where nothing is
  bool all_shown_when_told =
      true;  // no packet is empty, damaged, hidden (not to be shown), or without a time stamp
};

// Reads all of a clip that is a file.
ClipPackets read_packets(ClipInput& input);

// Validates a clip's presentation times.

// The time stamp of every frame in `unit`s of a second, AV_NOPTS_VALUE where there is none →
// seconds since the first frame, each correctly rounded. Times must increase from frame to frame;
// else all are NaN. MPEG streams have no stamp for frames still in the decoder at the file's end:
// these continue a constant interval, and are NaN if it varies.
std::vector<double> settle_times(const std::vector<std::int64_t>& stamps, const AVRational& unit);

// Gaps between otherwise evenly spaced frames, as Source::notes(); "" if none.
std::string gap_in(const std::vector<double>& times);

}  // namespace coldframe::frames
