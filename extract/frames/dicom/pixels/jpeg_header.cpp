#include "extract/frames/dicom/pixels/jpeg_header.h"

#include <algorithm>
#include <string>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

bool is_frame_header(std::uint32_t marker) {
  const bool table = marker == 0xC4 || marker == 0xC8 || marker == 0xCC;
  return (marker >= 0xC0 && marker <= 0xCF && !table) || marker == 0xF7;  // F7: JPEG-LS
}

}  // namespace

JpegHeader read_jpeg_header(std::string_view code) {
  const ByteCursor reader(code, std::endian::big);
  JpegHeader header;
  if (!reader.holds(0, "\xFF\xD8")) throw DataError("a frame does not start as JPEG does");
  for (std::uint64_t at = 2;;) {
    if (reader.u8(at) != 0xFF) throw DataError("a frame's JPEG header is damaged");
    const std::uint32_t marker = reader.u8(at + 1);
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    if (marker == 0xD9 || marker == 0xDA) throw DataError("a frame's JPEG code has no size");
    const std::uint64_t length = reader.u16(at + 2);
    if (marker == 0xE0 && reader.holds(at + 4, "JFIF")) header.jfif = true;
    if (is_frame_header(marker)) {
      header.precision = static_cast<int>(reader.u8(at + 4));
      header.rows = static_cast<int>(reader.u16(at + 5));
      header.columns = static_cast<int>(reader.u16(at + 7));
      header.components = static_cast<int>(reader.u8(at + 9));
      if (header.components == 3) {
        std::string ids;
        for (int i = 0; i < 3; ++i) ids += static_cast<char>(reader.u8(at + 10 + 3 * i));
        header.rgb_components = lower(ids) == "rgb";
      }
      return header;
    }
    at += 2 + std::max<std::uint64_t>(length, 2);
  }
}

}  // namespace coldframe::frames::dicom
