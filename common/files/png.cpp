#include "common/files/png.h"

#include <zlib.h>

#include <new>

#include "common/text/text.h"

namespace coldframe {
namespace {

std::string big_endian(std::uint64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// PNG (ISO/IEC 15948), section 5.3: length, type, data, CRC of type and data.
std::string chunk(const std::string& type, const std::string& data) {
  const std::string content = type + data;
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  return concat(big_endian(data.size()), content, big_endian(sum));
}

std::string deflated(const std::string& data) {
  uLongf size = compressBound(data.size());
  std::string bytes(size, '\0');
  const int status = compress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                              reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (status != Z_OK) throw std::bad_alloc();  // the only error that is left
  bytes.resize(size);
  return bytes;
}

}  // namespace

std::string png_picture(std::span<const std::uint8_t> rgb, std::size_t width) {
  const std::size_t stride = 3 * width, height = rgb.size() / stride;
  std::string rows;
  for (std::size_t y = 0; y < height; ++y) {
    rows += '\x01';  // filter "Sub": each byte less the one of the pixel to its left
    const auto row = rgb.subspan(y * stride, stride);
    for (std::size_t i = 0; i < stride; ++i)
      rows += static_cast<char>(row[i] - (i < 3 ? 0 : row[i - 3]));
  }
  // 8 bits, RGB, deflate, filters by row, not interlaced
  const std::string header =
      big_endian(width) + big_endian(height) + std::string("\x08\x02\0\0\0", 5);
  return concat("\x89PNG\r\n\x1a\n", chunk("IHDR", header), chunk("IDAT", deflated(rows)),
                chunk("IEND", ""));
}

}  // namespace coldframe
