// Sources: GIF89a specification, section "Appendix"; PNG specification, section 5; Microsoft "AVI
// RIFF File Reference"; ISO/IEC 14496-12 section 4.2 (boxes); RFC 8794 (EBML variable-size
// integers) and RFC 9559 (Matroska).
#include "extract/frames/clip/container.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"
#include "extract/frames/image/header.h"

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
  std::uint64_t at = 4;  // behind the EBML header's identifier
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

// Packets of 188 bytes, with a time of 4 bytes before each (Blu-ray, AVCHD) or parity behind it;
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

}  // namespace coldframe::frames
