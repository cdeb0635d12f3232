#include "extract/preprocess/preprocessing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/preprocess/resample/resample.h"

namespace coldframe::preprocess {

namespace {

// 0.485f becomes 0.485, not 0.48500001430511475: the shortest decimal that gives the same float.
Json shortest(const std::array<float, 3>& values) {
  Json result = Json::array();
  for (const float value : values) {
    std::array<char, 64> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    double decimal = 0;
    std::from_chars(text.data(), end, decimal);
    result.push_back(json_number(decimal));
  }
  return result;
}

// timm's crop mode "border" surrounds the frame with round(255 · mean), which normalises to about
// 0; torchvision's CenterCrop surrounds a frame that is too small with black.
std::array<std::uint8_t, 3> border_colour(const Preprocessing& preprocessing) {
  std::array<std::uint8_t, 3> colour{};
  if (preprocessing.resize != Resize::kPad) return colour;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double level = std::nearbyint(255.0 * preprocessing.mean[channel]);
    colour[channel] = static_cast<std::uint8_t>(std::min(255.0, std::max(0.0, level)));
  }
  return colour;
}

void fill_border(const Preprocessing& preprocessing, std::uint8_t* out) {
  const auto colour = border_colour(preprocessing);
  const auto pixels = static_cast<std::size_t>(preprocessing.image_size.pixels());
  for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::size_t channel = 0; channel < 3; ++channel)
      out[pixel * 3 + channel] = colour[channel];
  }
}

}  // namespace

Json to_json(const Preprocessing& preprocessing) {
  if (preprocessing.volume.is_on()) {
    Json json = to_json(preprocessing.volume);
    json["mean"] = shortest(preprocessing.mean);
    json["std"] = shortest(preprocessing.std);
    return json;
  }
  Json json{
      {"image_size", preprocessing.image_size},
      {"resize", word_for(kResizes, preprocessing.resize)},
      {"crop_pct", preprocessing.crop_pct},
      {"interpolation", word_for(kInterpolations, preprocessing.interpolation)},
      {"resampler", word_for(kResamplers, preprocessing.resampler)},
      {"mean", shortest(preprocessing.mean)},
      {"std", shortest(preprocessing.std)},
  };
  if (preprocessing.mask) json["mask"] = preprocessing.mask->digest;
  if (preprocessing.crop != frames::CropRule{}) json["crop"] = to_text(preprocessing.crop);
  if (preprocessing.spacing_mm > 0) json["spacing_mm"] = preprocessing.spacing_mm;
  if (preprocessing.tiles.size > 0)
    json["tiles"] =
        Json{{"size", preprocessing.tiles.size}, {"overlap", preprocessing.tiles.overlap}};
  return json;
}

void resize_frame(const Preprocessing& preprocessing, const frames::Image& image,
                  std::uint8_t* out) {
  const std::size_t expected = static_cast<std::size_t>(image.width > 0 ? image.width : 0) *
                               static_cast<std::size_t>(image.height > 0 ? image.height : 0) * 3;
  if (expected == 0 || image.rgb.size() != expected) {
    throw DataError(concat("cannot resize a frame of ", image.width, "×", image.height,
                           " pixels that holds ", image.rgb.size(), " bytes; expected ", expected));
  }
  const Geometry plan = plan_geometry(preprocessing, image.width, image.height);
  const auto [height, width] = preprocessing.image_size;
  if (plan.x.size < width || plan.y.size < height) fill_border(preprocessing, out);
  const Kernel x = make_kernel(preprocessing.interpolation, preprocessing.resampler, plan.x);
  const Kernel y = make_kernel(preprocessing.interpolation, preprocessing.resampler, plan.y);
  const std::size_t stride = static_cast<std::size_t>(width) * 3;
  resample_rgb(image, x, y, plan.vertical_first,
               out + static_cast<std::size_t>(plan.y.target) * stride +
                   static_cast<std::size_t>(plan.x.target) * 3,
               stride);
}

std::array<float, 768> normalization_table(const Preprocessing& preprocessing) {
  return normalization_table(preprocessing.resampler, preprocessing.mean, preprocessing.std);
}

void normalize(const Preprocessing& preprocessing, const std::uint8_t* in, float* out) {
  const std::array<float, 768> table = normalization_table(preprocessing);
  const auto pixels = static_cast<std::size_t>(preprocessing.image_size.pixels());
  for (std::size_t i = 0; i < pixels; ++i) {
    out[i] = table[in[i * 3]];
    out[pixels + i] = table[256 + in[i * 3 + 1]];
    out[2 * pixels + i] = table[512 + in[i * 3 + 2]];
  }
}

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

namespace {

constexpr double kMaxGrowth = 16;
constexpr double kMaxScaledPixels = 1 << 26;
constexpr std::size_t kMaxTiles = 1000000;

// Pixels along an edge of `pixels` that lie `spacing` millimetres apart.
double scaled_edge(int pixels, double spacing, double wanted) {
  if (!(spacing > 0) || !std::isfinite(spacing))
    throw DataError(
        "its file states no distance between pixels (DICOM PixelSpacing, NIfTI pixdim), which "
        "--spacing needs; leave --spacing out, or extract such exams apart");
  if (spacing / wanted > kMaxGrowth)
    throw DataError(concat("pixels of ", spacing, " mm would grow ", fixed(spacing / wanted, 1),
                           "-fold at --spacing ", wanted, "; at most ", kMaxGrowth,
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
  if (width * height > kMaxScaledPixels)
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
  if (columns.size() * rows.size() > kMaxTiles)
    throw DataError(concat("a frame of ", width, "×", height, " pixels would have ",
                           columns.size() * rows.size(), " tiles, more than ", kMaxTiles,
                           "; give a larger --tile-size or less overlap"));
  std::vector<frames::Rect> tiles;
  for (const int y : rows) {
    for (const int x : columns) tiles.push_back({x, y, side, side});
  }
  return tiles;
}

PreparedFrame::PreparedFrame(const Preprocessing& preprocessing, frames::Frame&& frame,
                             const std::optional<frames::Rect>& crop)
    : preprocessing_(preprocessing) {
  if (preprocessing.mask) apply_mask(*preprocessing.mask, frame.pixels);
  if (crop) frame.pixels = crop_image(frame.pixels, *crop);
  image_ =
      preprocessing.spacing_mm > 0 ? rescale_frame(preprocessing, frame) : std::move(frame.pixels);
}

std::vector<frames::Rect> PreparedFrame::tiles_of(const frames::Image& view) const {
  return plan_tiles(preprocessing_.tiles, view.width, view.height);
}

std::vector<std::uint8_t> PreparedFrame::resized(const frames::Image& view,
                                                 const frames::Rect& tile,
                                                 std::vector<std::uint8_t> pixels) const {
  pixels.resize(static_cast<std::size_t>(3 * preprocessing_.image_size.pixels()));
  if (tile.width == view.width && tile.height == view.height)
    resize_frame(preprocessing_, view, pixels.data());
  else
    resize_frame(preprocessing_, crop_image(view, tile), pixels.data());
  return pixels;
}

}  // namespace coldframe::preprocess
