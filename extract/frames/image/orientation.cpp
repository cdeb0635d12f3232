// Sources: TIFF 6.0, section 2 (image file directories); Exif 2.3 (CIPA DC-008), section 4.5.4 and
// tag 274, Orientation.
#include "extract/frames/image/orientation.h"

#include <opencv2/core.hpp>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"

namespace coldframe::frames {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kExif = "Exif\0\0"sv;

// The content of the EXIF segment, which is built like a TIFF file; "" where there is none.
std::string_view exif_of(std::string_view jpeg) {
  const ByteCursor in(jpeg, std::endian::big);
  for (std::uint64_t at = 2; in.u8(at) == 0xff;) {
    const unsigned marker = in.u8(at + 1);
    if (marker == 0xda || marker == 0xd9) break;
    if (marker == 0xff) {
      ++at;
      continue;
    }
    const std::uint64_t length = in.u16(at + 2);
    const std::uint64_t name = kExif.size() + 2;
    if (marker == 0xe1 && length > name && in.holds(at + 4, kExif))
      return in.text_at(at + 2 + name, length - name);
    at += 2 + length;
  }
  return {};
}

int orientation_of(std::string_view exif) {
  constexpr unsigned kOrientation = 274, kShort = 3;
  if (exif.empty()) return 1;
  const ByteCursor in(exif, exif.starts_with("MM") ? std::endian::big : std::endian::little);
  const std::uint64_t directory = in.u32(4);
  const unsigned entries = in.u16(directory);
  for (unsigned i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + std::uint64_t{12} * i;
    if (in.u16(entry) == kOrientation && in.u16(entry + 2) == kShort)
      return static_cast<int>(in.u16(entry + 8));
  }
  return 1;
}

}  // namespace

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  cv::Mat turned(image.height, image.width, CV_8UC3, image.rgb.data());
  if (orientation >= 5) cv::transpose(turned.clone(), turned);
  const bool mirror_columns =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool mirror_rows =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirror_columns) cv::flip(turned.clone(), turned, 1);
  if (mirror_rows) cv::flip(turned.clone(), turned, 0);
  const cv::Mat whole = turned.isContinuous() ? turned : turned.clone();
  return {whole.cols, whole.rows, {whole.data, whole.data + whole.total() * 3}};
}

int exif_orientation(std::string_view jpeg) {
  try {
    return orientation_of(exif_of(jpeg));
  } catch (const DataError&) {  // the picture may be whole all the same
    return 1;
  }
}

}  // namespace coldframe::frames
