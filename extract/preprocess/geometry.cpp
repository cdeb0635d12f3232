#include "extract/preprocess/geometry.h"

#include <algorithm>
#include <cmath>

namespace coldframe::preprocess {
namespace {

// Python's round(): halves to even. (nearbyint under the default rounding mode.)
std::int64_t round_half_even(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

// torchvision.transforms.functional.center_crop along one axis: pads by the floor of half the
// lack, or crops from the rounded half of the excess; transformers rounds that down.
Axis centre(Resampler resampler, int input, std::int64_t scaled, int target_size) {
  Axis axis{input, scaled};
  if (scaled < target_size) {
    axis.target = static_cast<int>((target_size - scaled) / 2);
    axis.size = static_cast<int>(scaled);
  } else {
    const std::int64_t excess = scaled - target_size;
    axis.offset = resampler == Resampler::kTransformers
                      ? excess / 2
                      : round_half_even(static_cast<double>(excess) / 2.0);
    axis.size = target_size;
  }
  return axis;
}

// Pillow 13's order of passes: vertically first when the height shrinks, and by more than twice the
// pixels that the width loses. (Found by bisecting over sizes; tests/extract/preprocess holds it to
// Pillow.)
bool pillow_13_takes_the_height_first(const Axis& x, const Axis& y) {
  const std::int64_t lost_width = std::max<std::int64_t>(0, x.input - x.scaled);
  return y.input - y.scaled > 2 * lost_width;
}

bool takes_the_height_first(Resampler resampler, const Geometry& plan) {
  return resampler == Resampler::kPillow && pillow_13_takes_the_height_first(plan.x, plan.y);
}

}  // namespace

Geometry plan_whole(Resampler resampler, const frames::Image& image, int width, int height) {
  Geometry plan{{image.width, width, 0, 0, width}, {image.height, height, 0, 0, height}};
  plan.vertical_first = takes_the_height_first(resampler, plan);
  return plan;
}

Geometry plan_geometry(const Preprocessing& preprocessing, int width, int height) {
  const int target = preprocessing.image_size;
  // timm.data.transforms_factory.transforms_imagenet_eval: scale_size = floor(img_size / crop_pct).
  const double scale_size = std::max(1.0, std::floor(target / preprocessing.crop_pct));
  double scaled_width = scale_size, scaled_height = scale_size;
  if (preprocessing.resize == Resize::kShortest) {
    // torchvision's _compute_resized_output_size: int(size * long / short).
    const double longer =
        std::trunc(scale_size * std::max(width, height) / std::min(width, height));
    (width <= height ? scaled_height : scaled_width) = longer;
  } else if (preprocessing.resize == Resize::kPad) {
    // timm's ResizeKeepRatio with longest = 1. Where it would leave no pixel and fail, we leave
    // one.
    const double ratio = std::max(width / scale_size, height / scale_size);
    scaled_width = std::max<double>(1, round_half_even(width / ratio));
    scaled_height = std::max<double>(1, round_half_even(height / ratio));
  }
  const Resampler resampler = preprocessing.resampler;
  Geometry plan{centre(resampler, width, static_cast<std::int64_t>(scaled_width), target),
                centre(resampler, height, static_cast<std::int64_t>(scaled_height), target)};
  plan.vertical_first = takes_the_height_first(resampler, plan);
  return plan;
}

}  // namespace coldframe::preprocess
