// Source: Microsoft's "Bitmap storage" (BITMAPFILEHEADER, BITMAPCOREHEADER, BITMAPINFOHEADER).
#include "extract/frames/image/bmp.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/files/byte_cursor.h"

namespace coldframe::frames {
namespace {

using Colour = std::array<std::uint8_t, 3>;  // RGB

// Entries that the file leaves out are black.
std::array<Colour, 256> read_palette(const ByteCursor<>& in, std::uint32_t bits) {
  const std::uint32_t header = in.u32(14);
  const bool is_old = header == 12;
  const std::uint64_t used = is_old ? 0 : in.u32(46), most = std::uint64_t{1} << bits;
  const std::uint64_t count = used == 0 || used > most ? most : used;
  const std::uint64_t entry_bytes = is_old ? 3 : 4;
  std::array<Colour, 256> palette{};
  for (std::uint64_t entry = 0; entry < count; ++entry) {
    const std::uint64_t at = 14 + header + entry * entry_bytes;
    for (std::uint64_t channel = 0; channel < 3; ++channel) {
      palette[entry][channel] = static_cast<std::uint8_t>(in.u8(at + 2 - channel));
    }
  }
  return palette;
}

}  // namespace

Image decode_bmp(std::string_view bytes, const ImageSize& size) {
  const ByteCursor in(bytes, std::endian::little);
  const bool is_old = in.u32(14) == 12;
  const std::uint32_t bits = is_old ? in.u16(24) : in.u16(28);
  const bool is_downwards = !is_old && static_cast<std::int32_t>(in.u32(22)) < 0;
  const auto width = static_cast<std::size_t>(size.width);
  const auto height = static_cast<std::size_t>(size.height);
  const std::size_t stride = (width * bits + 31) / 32 * 4;
  const std::array<Colour, 256> palette =
      bits <= 8 ? read_palette(in, bits) : std::array<Colour, 256>{};
  Image image{static_cast<int>(width), static_cast<int>(height),
              std::vector<std::uint8_t>(3 * width * height)};
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data()) + in.u32(10);
  std::uint8_t* to = image.rgb.data();
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* row = pixels + stride * (is_downwards ? y : height - 1 - y);
    for (std::size_t x = 0; x < width; ++x, to += 3) {
      if (bits <= 8) {
        const std::size_t at = x * bits;
        const unsigned entry = row[at / 8] >> (8 - bits - at % 8) & ((1u << bits) - 1);
        std::copy(palette[entry].begin(), palette[entry].end(), to);
      } else {
        const std::uint8_t* bgr = row + x * bits / 8;
        to[0] = bgr[2], to[1] = bgr[1], to[2] = bgr[0];
      }
    }
  }
  return image;
}

}  // namespace coldframe::frames
