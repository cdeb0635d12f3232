#include "extract/preprocess/preprocessing.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/preprocess/geometry.h"
#include "extract/preprocess/resample/resample.h"
#include "extract/preprocess/steps.h"

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

}  // namespace coldframe::preprocess
