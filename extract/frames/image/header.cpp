#include "extract/frames/image/header.h"

#include <cstring>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"
#include "extract/frames/frame.h"
#include "extract/frames/image/jpeg2000.h"
#include "extract/frames/image/netpbm.h"

namespace coldframe::frames {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kPngSignature = "\x89PNG\r\n\x1a\n"sv;

[[noreturn]] void unsupported(const char* what) {
  throw DataError(concat("it is ", what, ", which is not read; convert it to 8-bit grey or RGB"));
}

// Skips entropy-coded data: the offset of the next marker that is neither a stuffed byte nor a
// restart.
std::uint64_t after_scan(std::string_view bytes, std::uint64_t at) {
  while (at < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::uint64_t>(static_cast<const char*>(found) - bytes.data());
    if (at + 1 >= bytes.size()) break;
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xff) {
      ++at;
    } else if (marker == 0 || (marker >= 0xd0 && marker <= 0xd7)) {
      at += 2;
    } else {
      return at;
    }
  }
  throw DataError("it is truncated: its JPEG data has no end marker");
}

FrameSize jpeg_frame(const ByteCursor<>& in, std::uint64_t at, unsigned marker) {
  if (marker == 0xc3 || marker == 0xcb) unsupported("a lossless JPEG");
  if (in.u8(at + 4) != 8) unsupported("a JPEG of more than 8 bits");
  const std::uint32_t components = in.u8(at + 9);
  if (components != 1 && components != 3 && components != 4) {
    unsupported("a JPEG of other than 1, 3 or 4 colours");
  }
  return {in.u16(at + 7), in.u16(at + 5)};
}

[[noreturn]] void too_large(const FrameSize& size, std::uint64_t bytes) {
  throw DataError(concat("its header gives a size of ", size.width, "×", size.height,
                         " pixels, which ", bytes, " bytes cannot hold"));
}

// Bounds the work of decoding: in usual codings a block of 64 pixels takes a bit or more, and each
// scan may go over all of them.
void check_jpeg_work(const FrameSize& size, std::int64_t scans, std::uint64_t bytes) {
  constexpr std::int64_t kFreePixels = 1 << 16, kPixelsPerByte = 1024;
  constexpr std::int64_t kMaxScans = 256, kMaxVisits = std::int64_t{1} << 32;
  const std::int64_t pixels = size.width * size.height;
  if (pixels > kFreePixels + kPixelsPerByte * static_cast<std::int64_t>(bytes)) {
    too_large(size, bytes);
  }
  if (scans > kMaxScans || scans * pixels > kMaxVisits) {
    throw DataError(concat("its JPEG data goes over the picture ", plural(scans, "time"),
                           "; it is damaged, or made to keep its readers busy"));
  }
}

// Walks the segments to the end marker: libjpeg would silently paint what is missing grey.
FrameSize check_jpeg(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::big);
  FrameSize size;
  std::int64_t scans = 0;
  std::uint64_t at = 2;
  for (;;) {
    if (in.u8(at) != 0xff) throw DataError(concat("its JPEG data is damaged at byte ", at));
    const unsigned marker = in.u8(at + 1);
    if (marker == 0xff) {
      ++at;
      continue;
    }
    if (marker == 0xd9) break;
    const bool frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame && size.width != 0) throw DataError("its JPEG data is damaged: it has two headers");
    if (frame) size = jpeg_frame(in, at, marker);
    const std::uint64_t next = at + 2 + in.u16(at + 2);
    if (marker == 0xda) ++scans;
    at = marker == 0xda ? after_scan(bytes, next) : next;
  }
  check_jpeg_work(size, scans, bytes.size());
  return size;
}

// Deflate makes at most 258 bytes of 2 bits.
void check_png_size(const ByteCursor<>& in, const FrameSize& size) {
  constexpr std::uint64_t kMaxInflation = 1032;
  constexpr std::uint64_t kSamples[] = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  const std::uint32_t colour_type = in.u8(25), depth = in.u8(24);
  const std::uint64_t bits = colour_type > 6 ? 0 : kSamples[colour_type] * depth;
  if (bits == 0 || depth > 16) throw DataError("its PNG header is damaged");
  if (size.width > kMaxSide || size.height > kMaxSide) return;
  const auto width = static_cast<std::uint64_t>(size.width);
  const auto height = static_cast<std::uint64_t>(size.height);
  if ((width * bits / 8 + 1) * height / kMaxInflation > in.size()) too_large(size, in.size());
}

FrameSize check_png(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::big);
  if (!in.holds(12, "IHDR")) throw DataError("its PNG header is damaged");
  const FrameSize size{in.u32(16), in.u32(20)};
  check_png_size(in, size);
  std::uint64_t at = 8;
  while (!in.holds(at + 4, "IEND")) {
    if (in.holds(at + 4, "acTL")) unsupported("an animated PNG");
    at += 12 + std::uint64_t{in.u32(at)};
  }
  return size;
}

FrameSize webp_size(const ByteCursor<>& in) {
  if (in.holds(12, "VP8X")) {
    return {1 + std::int64_t{in.u24(24)}, 1 + std::int64_t{in.u24(27)}};
  }
  if (in.holds(12, "VP8L")) {
    const std::uint32_t packed = in.u32(21);
    return {1 + (packed & 0x3fff), 1 + (packed >> 14 & 0x3fff)};
  }
  if (!in.holds(12, "VP8 ")) throw DataError("its WebP header is damaged");
  return {in.u16(26) & 0x3fff, in.u16(28) & 0x3fff};
}

FrameSize check_webp(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::little);
  const std::uint64_t end = 8 + std::uint64_t{in.u32(4)};
  in.require(0, end);
  const FrameSize size = webp_size(in);
  // A blank picture may take a few bytes, whatever its size.
  constexpr std::uint64_t kFreePixels = 1 << 24, kPixelsPerByte = 1024;
  if (static_cast<std::uint64_t>(size.width * size.height) >
      kFreePixels + kPixelsPerByte * in.size()) {
    too_large(size, in.size());
  }
  return size;
}

FrameSize check_format(std::string_view bytes) {
  switch (image_format(bytes)) {
    case ImageFormat::kJpeg:
      return check_jpeg(bytes);
    case ImageFormat::kPng:
      return check_png(bytes);
    case ImageFormat::kTiff:  // libtiff checks these as it reads
    case ImageFormat::kWebp:
      return check_webp(bytes);
    case ImageFormat::kNetpbm:
      return netpbm_size(bytes);
    case ImageFormat::kJpeg2000:
      return jpeg2000_size(bytes);
    case ImageFormat::kNone:
      break;
  }
  throw DataError("its content is that of no known image format");
}

}  // namespace

ImageFormat image_format(std::string_view head) {
  if (head.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (head.starts_with(kPngSignature)) return ImageFormat::kPng;
  if (is_netpbm(head)) return ImageFormat::kNetpbm;
  if (is_jpeg2000(head)) return ImageFormat::kJpeg2000;
  for (const auto signature : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv}) {
    if (head.starts_with(signature)) return ImageFormat::kTiff;
  }
  if (head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP") {
    return ImageFormat::kWebp;
  }
  return ImageFormat::kNone;
}

bool is_deep_png(std::string_view head) {
  return image_format(head) == ImageFormat::kPng && head.size() > 24 && head[24] == 16;
}

bool is_grey_png(std::string_view head) {
  return image_format(head) == ImageFormat::kPng && head.size() > 25 &&
         (head[25] == 0 || head[25] == 4);
}

bool is_animated_png(std::string_view head) {
  if (image_format(head) != ImageFormat::kPng) return false;
  const ByteCursor in(head, std::endian::big);
  for (std::uint64_t at = 8; at + 8 <= head.size() && !in.holds(at + 4, "IDAT");) {
    if (in.holds(at + 4, "acTL")) return true;
    at += 12 + std::uint64_t{in.u32(at)};
  }
  return false;
}

void check_size(const FrameSize& size) {
  if (size.width >= 1 && size.height >= 1 && size.width <= kMaxSide && size.height <= kMaxSide &&
      size.width * size.height <= kMaxPixels)
    return;
  throw DataError(concat("its header gives a size of ", size.width, "×", size.height,
                         " pixels; at most ", kMaxSide, " a side and ", kMaxPixels,
                         " in all are read"));
}

FrameSize check_image(std::string_view bytes) {
  const FrameSize size = check_format(bytes);
  check_size(size);
  return size;
}

}  // namespace coldframe::frames
