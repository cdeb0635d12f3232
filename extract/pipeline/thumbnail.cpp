#include "extract/pipeline/thumbnail.h"

#include <algorithm>
#include <cmath>

#include "extract/decode/image/still_formats.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {
namespace {

constexpr int kQuality = 80;  // 1.3 KiB for an ultrasound frame at 96 pixels, on average

}  // namespace

std::string make_thumbnail(const frames::Image& image, int side) {
  const int longer = std::max(image.width, image.height);
  if (longer <= side) return frames::encode_jpeg(image, kQuality);
  const auto scaled = [&](int edge) {
    const double exact = static_cast<double>(edge) * side / longer;
    return std::max(1, static_cast<int>(std::lround(exact)));
  };
  preprocess::Preprocessing small;
  small.interpolation = preprocess::Interpolation::kBilinear;
  return frames::encode_jpeg(
      preprocess::resize_image(small, image, scaled(image.width), scaled(image.height)), kQuality);
}

}  // namespace coldframe::extract
