#include "extract/preprocess/rescale.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/preprocess/geometry.h"
#include "extract/preprocess/resample/resample.h"

namespace coldframe::preprocess {
namespace {

constexpr double kMostGrowth = 16;
constexpr double kMostPixels = 1 << 26;

// Pixels along an edge of `pixels` that lie `spacing` millimetres apart.
double scaled_edge(int pixels, double spacing, double wanted) {
  if (!(spacing > 0) || !std::isfinite(spacing))
    throw DataError(
        "its file states no distance between pixels (DICOM PixelSpacing, NIfTI pixdim), which "
        "--spacing needs; leave --spacing out, or extract such exams apart");
  if (spacing / wanted > kMostGrowth)
    throw DataError(concat("pixels of ", spacing, " mm would grow ", fixed(spacing / wanted, 1),
                           "-fold at --spacing ", wanted, "; at most ", kMostGrowth,
                           "-fold is carried out, so give a larger --spacing"));
  return std::max(1.0, std::nearbyint(pixels * spacing / wanted));
}

}  // namespace

frames::Image resize_image(const Preprocessing& preprocessing, const frames::Image& image,
                           int width, int height) {
  const Geometry plan = plan_whole(preprocessing.resampler, image, width, height);
  const Kernel x = make_kernel(preprocessing.interpolation, preprocessing.resampler, plan.x);
  const Kernel y = make_kernel(preprocessing.interpolation, preprocessing.resampler, plan.y);
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  frames::Image result{width, height, {}};
  result.rgb.resize(stride * static_cast<std::size_t>(height));
  resample_rgb(image, x, y, plan.vertical_first, result.rgb.data(), stride);
  return result;
}

frames::Image rescale_frame(const Preprocessing& preprocessing, const frames::Frame& frame) {
  const frames::Image& image = frame.pixels;
  const double height = scaled_edge(image.height, frame.spacing_mm[0], preprocessing.spacing_mm);
  const double width = scaled_edge(image.width, frame.spacing_mm[1], preprocessing.spacing_mm);
  if (width * height > kMostPixels)
    throw DataError(concat("at --spacing ", preprocessing.spacing_mm, " a frame of ", image.width,
                           "×", image.height, " pixels would have ", width, "×", height,
                           ", more than 2^26 pixels; give a larger --spacing"));
  return resize_image(preprocessing, image, static_cast<int>(width), static_cast<int>(height));
}

}  // namespace coldframe::preprocess
