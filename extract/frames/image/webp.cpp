#include "extract/frames/image/webp.h"

#include <webp/decode.h>

#include "common/cli/error.h"

namespace coldframe::frames {

Image decode_webp(std::string_view bytes, const FrameSize& size) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto count = static_cast<std::size_t>(size.width * size.height);
  Image image{static_cast<int>(size.width), static_cast<int>(size.height), {}};
  WebPBitstreamFeatures features{};
  const bool is_sound = WebPGetFeatures(data, bytes.size(), &features) == VP8_STATUS_OK &&
                        features.width == image.width && features.height == image.height;
  if (is_sound && features.has_animation != 0)
    throw DataError("it is an animated WebP, of which no frame is read; make a GIF or PNG of it");
  if (is_sound) image.rgb.resize(3 * count);
  if (!is_sound || WebPDecodeRGBInto(data, bytes.size(), image.rgb.data(), image.rgb.size(),
                                     3 * image.width) == nullptr) {
    throw DataError("its WebP data is damaged and cannot be decoded");
  }
  return image;
}

}  // namespace coldframe::frames
