// Sources: GIF89a specification, section "Appendix"; PNG specification, section 5; Microsoft "AVI
// RIFF File Reference"; ISO/IEC 14496-12 section 4.2 (boxes); RFC 8794 (EBML variable-size
// integers) and RFC 9559 (Matroska).
#include "extract/decode/clip/packets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/image/still_formats.h"

namespace coldframe::frames {

namespace {

using std::string_view_literals::operator""sv;

class Container {
 public:
  explicit Container(const ByteSource& file) : file_(file) {}

  std::uint64_t size() const { return file_.size(); }

  std::uint64_t integer(std::uint64_t at, unsigned count, std::endian order) const {
    require(at, count);
    return ByteCursor(file_.read(at, count), order).number(count);
  }
  std::uint64_t big(std::uint64_t at, unsigned count) const {
    return integer(at, count, std::endian::big);
  }
  std::uint64_t little(std::uint64_t at, unsigned count) const {
    return integer(at, count, std::endian::little);
  }

  // The file must hold `count` bytes from `at` on.
  void require(std::uint64_t at, std::uint64_t count) const {
    if (at <= size() && count <= size() - at) return;
    RefuseAsTruncated()({size(), at, count});
  }

 private:
  const ByteSource& file_;
};

std::uint64_t colour_table(std::uint64_t flags) {
  return flags & 0x80 ? std::uint64_t{3} << ((flags & 7) + 1) : 0;
}

// Chains of sub-blocks end with an empty one. Every step moves on, so that no content loops.
std::uint64_t skip_sub_blocks(const Container& file, std::uint64_t at) {
  while (const std::uint64_t length = file.big(at, 1)) at += 1 + length;
  return at + 1;
}

void check_gif(const Container& file) {
  constexpr std::uint64_t kExtension = 0x21, kImage = 0x2c, kTrailer = 0x3b;
  std::uint64_t at = 13 + colour_table(file.big(10, 1));
  for (;;) {
    const std::uint64_t block = file.big(at, 1);
    if (block == kTrailer) return;
    if (block == kExtension) {
      at = skip_sub_blocks(file, at + 2);
    } else if (block == kImage) {
      at = skip_sub_blocks(file, at + 11 + colour_table(file.big(at + 9, 1)));
    } else {
      throw DataError(concat("it is damaged: byte ", at, " starts no GIF block"));
    }
  }
}

void check_png(const Container& file) {
  constexpr std::uint64_t kEnd = 0x49454e44;  // "IEND"
  std::uint64_t at = 8;
  while (file.big(at + 4, 4) != kEnd) at += 12 + file.big(at, 4);
  file.require(at, 12);
}

void check_riff(const Container& file) {
  const std::uint64_t declared = file.little(4, 4);
  constexpr std::uint64_t kUnknown = 0xffffffff;  // written by live recorders, like 0
  if (declared != kUnknown) file.require(8, declared);
}

void check_iso_media(const Container& file) {
  for (std::uint64_t at = 0; at < file.size();) {
    if (file.size() - at < 8) return;  // some writers pad with a few zero bytes
    std::uint64_t length = file.big(at, 4);
    if (length == 0) return;  // to the end of the file
    if (length == 1) length = file.big(at + 8, 8);
    if (length < 8) throw DataError(concat("it is damaged: the box at byte ", at, " has no size"));
    file.require(at, length);
    at += length;
  }
}

// An EBML variable-size integer; its first byte's leading zeros tell how many bytes follow.
std::uint64_t ebml_size(const Container& file, std::uint64_t& at, bool& unknown) {
  const std::uint64_t first = file.big(at, 1);
  unsigned count = 1;
  while (count <= 8 && !(first & (0x100u >> count))) ++count;
  if (count > 8) throw DataError(concat("it is damaged: byte ", at, " starts no EBML size"));
  const std::uint64_t mask = (std::uint64_t{1} << (7 * count)) - 1;
  const std::uint64_t value = file.big(at, count) & mask;
  unknown = value == mask;
  at += count;
  return value;
}

void check_matroska(const Container& file) {
  bool unknown = false;
  std::uint64_t at = 4;  // after the EBML header's identifier
  const std::uint64_t header = ebml_size(file, at, unknown);
  file.require(at, header);
  at += header;
  constexpr std::uint64_t kSegment = 0x18538067;
  if (unknown || file.big(at, 4) != kSegment) return;
  at += 4;
  const std::uint64_t segment = ebml_size(file, at, unknown);
  if (!unknown) file.require(at, segment);
}

// ISO base media files (MP4, QuickTime) start with one of these boxes; HEIF and AVIF images too.
bool is_iso_media(std::string_view head) {
  if (head.size() < 12) return false;
  const std::string_view box = head.substr(4, 4), brand = head.substr(8, 4);
  constexpr std::array<std::string_view, 6> kBoxes{"moov", "mdat", "wide", "free", "skip", "pnot"};
  constexpr std::array<std::string_view, 12> kImages{"heic", "heix", "heim", "heis",
                                                     "hevc", "hevx", "hevm", "hevs",
                                                     "mif1", "msf1", "avif", "avis"};
  if (box == "ftyp") return std::find(kImages.begin(), kImages.end(), brand) == kImages.end();
  return std::find(kBoxes.begin(), kBoxes.end(), box) != kBoxes.end();
}

// Packets of 188 bytes, with a time of 4 bytes before each (Blu-ray, AVCHD) or parity after it;
// the file may begin within one. Each begins with "G" and holds data, fields or both (ISO/IEC
// 13818-1, section 2.4.3).
bool is_transport_stream(std::string_view head) {
  const auto is_packet = [&](std::size_t at) {
    return head[at] == 'G' && at + 3 < head.size() && (head[at + 3] & 0x30) != 0;
  };
  for (const std::size_t size : {188u, 192u, 204u}) {
    for (std::size_t first = 0; first < size; ++first) {
      std::size_t at = first, packets = 0;
      for (; at + 3 < head.size() && is_packet(at); at += size) ++packets;
      const bool begins_whole = first == 0 || first == size - 188;
      if (begins_whole ? packets >= 3 : packets >= 8 && at + 3 >= head.size()) return true;
    }
  }
  return false;
}

// A program stream that begins within a pack: the next one, or the next packet of a video in it,
// begins within the head (ISO/IEC 13818-1 and 11172-1, pack_header and PES_packet).
bool is_cut_program_stream(std::string_view head) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(head[at]); };
  constexpr std::string_view kStart = "\x00\x00\x01"sv;
  for (std::size_t at = head.find(kStart); at != std::string_view::npos && at + 6 < head.size();
       at = head.find(kStart, at + 1)) {
    const unsigned code = byte(at + 3), next = byte(at + 4), flags = byte(at + 6);
    if (code == 0xba && ((next & 0xc0) == 0x40 || (next & 0xf0) == 0x20)) return true;
    const bool has_length = next != 0 || byte(at + 5) != 0;
    const bool begins_fields = (flags & 0xc0) == 0x80 || (flags & 0xe0) == 0x20 || flags == 0x0f;
    if ((code & 0xf0) == 0xe0 && has_length && begins_fields) return true;
  }
  return false;
}

}  // namespace

const char* clip_demuxer(std::string_view head) {
  struct Signature {
    std::string_view bytes;
    const char* demuxer;
  };
  constexpr std::array kSignatures{
      Signature{"GIF87a"sv, "gif"},
      Signature{"GIF89a"sv, "gif"},
      Signature{"\x1a\x45\xdf\xa3"sv, "matroska"},  // WebM too
      Signature{"\x00\x00\x01\xba"sv, "mpeg"},      // program stream
      Signature{"\x00\x00\x01\xb3"sv, "mpegvideo"},
      Signature{"OggS"sv, "ogg"},
      Signature{"FLV\x01"sv, "flv"},
      Signature{"\x30\x26\xb2\x75\x8e\x66\xcf\x11"sv, "asf"},  // WMV
  };
  for (const auto& [bytes, demuxer] : kSignatures) {
    if (head.starts_with(bytes)) return demuxer;
  }
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "AVI ") return "avi";
  if (is_iso_media(head)) return "mov";
  if (is_animated_png(head)) return "apng";
  if (is_transport_stream(head)) return "mpegts";
  return is_cut_program_stream(head) ? "mpeg" : nullptr;
}

// A start code, and the header of a unit that may come first (ITU-T H.264 table 7-1, H.265 7-1).
const char* stream_demuxer(std::string_view head) {
  const std::size_t start = head.find("\0\0\1"sv);
  if (start > 1 || head.size() < start + 5) return nullptr;
  const std::string_view unit = head.substr(start + 3, 2);
  for (const std::string_view first : {"\x40\1", "\x42\1", "\x44\1", "\x46\1", "\x4e\1"})
    if (unit == first) return "hevc";
  const bool h264 = "\x06\x09\x27\x47\x67"sv.find(unit[0]) != std::string_view::npos;
  return h264 ? "h264" : nullptr;
}

void check_png_header(const ByteSource& file) {
  constexpr std::uint64_t kFrame = 0x6663544c, kPixels = 0x49444154;  // "fcTL", "IDAT"
  const Container container(file);
  for (std::uint64_t at = 8;;) {
    const std::uint64_t length = container.big(at, 4), type = container.big(at + 4, 4);
    if (type == kFrame || type == kPixels) return;
    container.require(at, 12 + length);
    at += 12 + length;
  }
}

void check_container(const ByteSource& file) {
  std::string head(12, '\0');
  head.resize(file.read_some(0, std::as_writable_bytes(std::span(head))));
  const Container container(file);
  const std::string_view box = std::string_view(head).substr(std::min<std::size_t>(4, head.size()));
  if (head.starts_with("GIF8")) return check_gif(container);
  if (head.starts_with("\x89PNG")) return check_png(container);
  if (head.starts_with("RIFF")) return check_riff(container);
  if (head.starts_with("\x1a\x45\xdf\xa3")) return check_matroska(container);
  for (const std::string_view name : {"ftyp", "moov", "mdat", "wide", "free", "skip", "pnot"}) {
    if (box.starts_with(name)) return check_iso_media(container);
  }
}

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

namespace {

void read_all(ClipInput& input, ClipPackets& packets) {
  const PacketPointer packet(av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  FieldPairs fields(input.stream());
  const bool has_keys = !is_animation(*input.stream().codecpar);
  while (input.read(*packet)) {
    if (packet->flags & AV_PKT_FLAG_CORRUPT) packets.all_shown_when_told = false;
    if (packet->pts == AV_NOPTS_VALUE) packets.all_shown_when_told = false;
    if (packet->size == 0 || packet->flags & AV_PKT_FLAG_DISCARD) {
      packets.all_shown_when_told = false;
      continue;
    }
    if (fields.completes(*packet)) continue;
    const bool is_key = has_keys && packet->flags & AV_PKT_FLAG_KEY;
    packets.shown.push_back({packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts, is_key});
  }
}

}  // namespace

ClipPackets read_packets(ClipInput& input) {
  ClipPackets packets;
  try {
    check_container(input.file());
  } catch (const DataError& error) {
    packets.fault = error.what();
  }
  try {
    read_all(input, packets);
  } catch (const DataError& error) {
    if (packets.fault.empty()) packets.fault = error.what();
  }
  const auto shown_at = [](const ClipPacket& packet) {
    return packet.timestamp == AV_NOPTS_VALUE ? INT64_MAX : packet.timestamp;
  };
  std::ranges::stable_sort(packets.shown, {}, shown_at);
  return packets;
}

namespace {

bool rises(const std::vector<std::int64_t>& stamps, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (stamps[i] == AV_NOPTS_VALUE || (i > 0 && stamps[i] <= stamps[i - 1])) return false;
  }
  return true;
}

// What containers round away (milliseconds in some), or a twentieth.
double tolerance_of(double interval) {
  return std::max(0.002, interval / 20);
}

// The mean of intervals, NaN unless they are constant.
double constant_interval(const std::vector<double>& times, std::size_t count) {
  if (count < 2) return kNotStated;
  double least = times[1] - times[0], most = least;
  for (std::size_t i = 2; i < count; ++i) {
    least = std::min(least, times[i] - times[i - 1]);
    most = std::max(most, times[i] - times[i - 1]);
  }
  const double mean = (times[count - 1] - times[0]) / static_cast<double>(count - 1);
  const double tolerance = tolerance_of(mean);
  return mean - least <= tolerance && most - mean <= tolerance ? mean : kNotStated;
}

}  // namespace

std::vector<double> settle_times(const std::vector<std::int64_t>& stamps, const AVRational& unit) {
  std::vector<double> times(stamps.size(), kNotStated);
  if (stamps.empty()) return times;
  std::size_t count = stamps.size();  // of frames whose time was reported
  while (count > 1 && stamps[count - 1] == AV_NOPTS_VALUE) --count;
  if (!rises(stamps, count)) return times;
  for (std::size_t i = 0; i < count; ++i)
    times[i] = static_cast<double>(stamps[i] - stamps[0]) * unit.num / unit.den;
  const double interval = constant_interval(times, count);
  for (std::size_t i = count; i < times.size(); ++i)
    times[i] = times[count - 1] + interval * static_cast<double>(i - count + 1);
  return times;
}

std::string gap_in(const std::vector<double>& times) {
  constexpr std::size_t kFewest = 10;  // intervals, of which one may be a gap
  std::vector<double> intervals;
  for (std::size_t i = 1; i < times.size(); ++i) intervals.push_back(times[i] - times[i - 1]);
  if (intervals.size() < kFewest ||
      std::ranges::any_of(intervals, [](double t) { return !(t > 0); }))
    return "";
  std::vector<double> sorted = intervals;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  const double usual = *middle;
  const auto is_gap = [&](double interval) { return interval > 1.5 * usual; };
  const auto is_usual = [&](double t) { return std::abs(t - usual) <= tolerance_of(usual); };
  const auto first = std::ranges::find_if(intervals, is_gap);
  const auto gaps = static_cast<std::size_t>(std::ranges::count_if(intervals, is_gap));
  const auto even = static_cast<std::size_t>(std::ranges::count_if(intervals, is_usual));
  if (gaps == 0 || gaps > intervals.size() / kFewest || gaps + even < intervals.size()) return "";
  const auto before = first - intervals.begin();
  return concat(fixed(*first, 3), " s pass between its frames ", before, " and ", before + 1,
                gaps > 1 ? concat(", so do more between ", plural(gaps - 1, "other pair")) : "",
                ", and ", fixed(usual, 3), " s between the others: frames may be missing there");
}

}  // namespace coldframe::frames
