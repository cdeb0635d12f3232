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

// The frame scaled as timm.data.transforms_factory.transforms_imagenet_eval does, before the crop.
ImageSize scaled_size(const Preprocessing& preprocessing, int width, int height) {
  const auto enlarged = [&](std::int64_t side) {
    return std::max(1.0, std::floor(static_cast<double>(side) / preprocessing.crop_pct));
  };
  const double to_height = enlarged(preprocessing.image_size.height);
  const double to_width = enlarged(preprocessing.image_size.width);
  if (preprocessing.resize == Resize::kSquash)
    return {static_cast<std::int64_t>(to_height), static_cast<std::int64_t>(to_width)};
  if (preprocessing.resize == Resize::kShortest && to_height == to_width) {
    // torchvision's _compute_resized_output_size: int(size * long / short).
    const auto longer =
        static_cast<std::int64_t>(to_width * std::max(width, height) / std::min(width, height));
    const auto shorter = static_cast<std::int64_t>(to_width);
    return width <= height ? ImageSize{longer, shorter} : ImageSize{shorter, longer};
  }
  // timm's ResizeKeepRatio, with longest = 1 for pad. Where it would leave no pixel and fail, we
  // leave one.
  const double by_width = width / to_width, by_height = height / to_height;
  const double ratio = preprocessing.resize == Resize::kPad ? std::max(by_width, by_height)
                                                            : std::min(by_width, by_height);
  return {std::max<std::int64_t>(1, round_half_even(height / ratio)),
          std::max<std::int64_t>(1, round_half_even(width / ratio))};
}

}  // namespace

Geometry plan_whole(Resampler resampler, const frames::Image& image, int width, int height) {
  Geometry plan{{image.width, width, 0, 0, width}, {image.height, height, 0, 0, height}};
  plan.vertical_first = takes_the_height_first(resampler, plan);
  return plan;
}

Geometry plan_geometry(const Preprocessing& preprocessing, int width, int height) {
  const ImageSize& target = preprocessing.image_size;
  const ImageSize scaled = scaled_size(preprocessing, width, height);
  const Resampler resampler = preprocessing.resampler;
  Geometry plan{centre(resampler, width, scaled.width, static_cast<int>(target.width)),
                centre(resampler, height, scaled.height, static_cast<int>(target.height))};
  plan.vertical_first = takes_the_height_first(resampler, plan);
  return plan;
}

}  // namespace coldframe::preprocess
