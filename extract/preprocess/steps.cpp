#include "extract/preprocess/steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/preprocess/geometry.h"
#include "extract/preprocess/resample/resample.h"

namespace coldframe::preprocess {
namespace {

constexpr double kMostGrowth = 16;
constexpr double kMostPixels = 1 << 26;
constexpr std::size_t kMostTiles = 1000000;

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

std::vector<int> starts(int length, int side, int step) {
  std::vector<int> result;
  for (int at = 0; at < length - side; at += step) result.push_back(at);
  result.push_back(length - side);
  return result;
}

}  // namespace

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

std::string to_text(const frames::Rect& rect) {
  return concat(rect.x, ',', rect.y, ',', rect.width, ',', rect.height);
}

std::string to_text(const frames::CropRule& rule) {
  if (rule.kind == frames::CropRule::Kind::kNone) return "none";
  if (rule.kind == frames::CropRule::Kind::kAuto) return "auto";
  std::vector<std::string> texts;
  for (const auto& [pixels, percent] : rule.edges) {
    const std::string share = percent > 0 ? concat(exact(percent), '%') : "";
    const bool tells_pixels = share.empty() || pixels != 0;
    texts.push_back(
        concat(share, !share.empty() && pixels > 0 ? "+" : "", tells_pixels ? concat(pixels) : ""));
  }
  return join(texts, ",");
}

frames::Image crop_image(const frames::Image& image, const frames::Rect& rect) {
  if (rect.x < 0 || rect.y < 0 || rect.width < 1 || rect.height < 1 ||
      rect.width > image.width - rect.x || rect.height > image.height - rect.y)
    throw DataError(concat("the crop ", to_text(rect), " (x,y,w,h) does not lie within a frame of ",
                           image.width, "×", image.height,
                           " pixels; correct it, or give those exams a crop of their own in the ",
                           "manifest's column 'crop'"));
  frames::Image part{rect.width, rect.height, {}};
  const std::size_t row = static_cast<std::size_t>(rect.width) * 3;
  part.rgb.resize(row * static_cast<std::size_t>(rect.height));
  const std::uint8_t* from =
      image.rgb.data() + (static_cast<std::size_t>(rect.y) * static_cast<std::size_t>(image.width) +
                          static_cast<std::size_t>(rect.x)) *
                             3;
  for (std::size_t y = 0; y < static_cast<std::size_t>(rect.height); ++y)
    std::memcpy(part.rgb.data() + y * row, from + y * static_cast<std::size_t>(image.width) * 3,
                row);
  return part;
}

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

std::vector<frames::Rect> plan_tiles(const Tiling& tiling, int width, int height) {
  if (tiling.size == 0 || (width <= tiling.size && height <= tiling.size))
    return {{0, 0, width, height}};
  const int side = std::min({tiling.size, width, height});
  const int step = std::max(1, static_cast<int>(std::nearbyint(side * (1.0 - tiling.overlap))));
  const auto columns = starts(width, side, step), rows = starts(height, side, step);
  if (columns.size() * rows.size() > kMostTiles)
    throw DataError(concat("a frame of ", width, "×", height, " pixels would have ",
                           columns.size() * rows.size(), " tiles, more than ", kMostTiles,
                           "; give a larger --tile-size or less overlap"));
  std::vector<frames::Rect> tiles;
  for (const int y : rows) {
    for (const int x : columns) tiles.push_back({x, y, side, side});
  }
  return tiles;
}

}  // namespace coldframe::preprocess
