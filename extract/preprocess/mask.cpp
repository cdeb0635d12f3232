#include "extract/preprocess/mask.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::preprocess {

Mask make_mask(const frames::Image& image) {
  Mask mask{image.width, image.height, {}, {}};
  mask.keep.reserve(image.rgb.size() / 3);
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    mask.keep.push_back(std::max({image.rgb[i], image.rgb[i + 1], image.rgb[i + 2]}) >= 128);
  mask.digest = sha256_hex(
      concat(mask.width, 'x', mask.height, ':', std::string(mask.keep.begin(), mask.keep.end())));
  return mask;
}

void apply_mask(const Mask& mask, frames::Image& frame) {
  if (frame.width != mask.width || frame.height != mask.height)
    throw DataError(concat("the frame has ", frame.width, "×", frame.height, " pixels, the mask ",
                           mask.width, "×", mask.height,
                           "; --mask needs frames of its own size (extract the others apart)"));
  for (std::size_t i = 0; i < mask.keep.size(); ++i) {
    if (!mask.keep[i]) std::fill_n(frame.rgb.begin() + static_cast<std::ptrdiff_t>(i * 3), 3, 0);
  }
}

}  // namespace coldframe::preprocess
