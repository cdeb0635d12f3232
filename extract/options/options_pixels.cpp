#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/input/crop_rule.h"
#include "extract/frames/source.h"
#include "extract/options/option_groups.h"
#include "extract/preprocess/steps.h"

namespace coldframe::extract {
namespace {

float channel_of(const std::string& option, double value, bool positive, const std::string& text,
                 const std::string& part) {
  if (std::isfinite(value) && (!positive || value > 0)) return static_cast<float>(value);
  throw ConfigError(concat("--", option, " '", text, "': '", part, "' is not a ",
                           positive ? "positive " : "", "number"));
}

std::array<float, 3> parse_channels(const std::string& option, const std::string& text,
                                    bool positive) {
  const auto parts = split(text, ',');
  std::array<float, 3> values{};
  if (parts.size() != 1 && parts.size() != 3)
    throw ConfigError(
        concat("--", option, " '", text, "': expected one value or three, separated by commas"));
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double value = 0;
    const auto& part = parts[parts.size() == 1 ? 0 : channel];
    if (!parse_double(trim(part), value)) value = std::nan("");
    values[channel] = channel_of(option, value, positive, text, part);
  }
  return values;
}

std::array<float, 3> restored_channels(const std::string& option, const Json& recorded,
                                       bool positive) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const Json& value = recorded.at(channel);
    values[channel] =
        channel_of(option, value.get<double>(), positive, recorded.dump(), value.dump());
  }
  return values;
}

// "0.485,0.456,0.406", each number divided by `by`.
std::string channels_text(const std::array<float, 3>& values, double by) {
  return concat(values[0] / by, ",", values[1] / by, ",", values[2] / by);
}

// Normalised with constants meant for 0…255, all images look the same. No mean of pixels of 0…1 is
// above 1, and their deviation is at most 0.5; a --std of 1 leaves them as they are.
void refuse_constants_of_levels(const std::array<float, 3>& mean, const std::array<float, 3>& std) {
  constexpr float kGreatestMean = 1, kGreatestStd = 3, kGreatestOfPixels = 0.5;
  constexpr double kLevels = 255;
  const auto above = [](const std::array<float, 3>& values, float greatest) {
    return std::ranges::any_of(values, [&](float value) { return std::abs(value) > greatest; });
  };
  const bool wrong_mean = above(mean, kGreatestMean), wrong_std = above(std, kGreatestStd);
  if (!wrong_mean && !wrong_std) return;
  const bool scale_std = wrong_std || (wrong_mean && above(std, kGreatestOfPixels));
  const bool of_levels = !above(mean, kLevels) && !above(std, kLevels);
  throw ConfigError(
      concat("mean ", channels_text(mean, 1), " and std ", channels_text(std, 1),
             of_levels ? " are for levels of 0…255" : " are for other numbers than 0…1",
             ", and pixels are scaled to 0…1 before; give ",
             of_levels ? concat("--mean ", channels_text(mean, wrong_mean ? kLevels : 1), " --std ",
                                channels_text(std, scale_std ? kLevels : 1))
                       : "a --mean and a --std of 0…1"));
}

std::shared_ptr<const preprocess::Mask> load_mask(const std::string& path,
                                                  const frames::ReaderOptions& reader) {
  const frames::SourceFile file(path);
  const auto source = frames::require_kind(file).open(file, reader);
  if (source->frame_count() != 1)
    throw DataError(concat("--mask '", path, "' holds several frames; expected one image"));
  std::shared_ptr<const preprocess::Mask> mask;
  constexpr std::int64_t kFirst = 0;
  source->read(std::span(&kFirst, 1), [&](frames::Frame&& frame) {
    mask = std::make_shared<const preprocess::Mask>(preprocess::make_mask(frame.pixels));
  });
  return mask;
}

frames::CropRule parse_crop(const std::string& word) {
  if (const auto rule = frames::parse_crop(word)) return *rule;
  throw ConfigError(concat("--crop '", word, "': expected ", frames::kCropHelp));
}

}  // namespace

OptionRows pixel_options(ExtractOptions& options) {
  using namespace preprocess;
  Preprocessing& p = options.preprocessing;
  const auto channels = [](std::array<float, 3>& place, bool positive) {
    return with_restore(
        [&place, positive](const std::string& option, const std::string& word) {
          place = parse_channels(option, word, positive);
        },
        [&place, positive](const std::string& option, const Json& recorded) {
          place = restored_channels(option, recorded, positive);
        });
  };
  const auto restore_size = [&p](const std::string&, const Json& recorded) {
    p.image_size = recorded.get<ImageSize>();
    require_image_size(p.image_size, recorded.dump());
  };
  return {
      {"mask", "FILE", local(text(options.mask)),
       "image of the frames' size: what is black there becomes black"},
      {"crop", "X,Y,W,H", parsed(p.crop, parse_crop),
       "keep this rectangle of each frame, in pixels or shares (50%, 100%-50); auto: fundus disc, "
       "ultrasound sector, no borders",
       "", "features.preprocessing.crop"},
      {"spacing", "MM", number(p.spacing_mm, above(0, "mm")),
       "resample to MM millimetres per pixel, after the crop", "",
       "features.preprocessing.spacing_mm"},
      {"tiles", "OVERLAP", number(p.tiles.overlap, {0, 0.9}),
       "slide a window over large frames and average its features, e.g. 0.25 (default overlap)",
       "0.25", "features.preprocessing.tiles.overlap"},
      {"tile-size", "PX", number(p.tiles.size, {8, 65536, "pixels"}),
       "the window's side in pixels of the frame (default: --image-size)", "",
       "features.preprocessing.tiles.size"},
      {"image-size", "S|HxW", with_restore(parsed(p.image_size, parse_image_size), restore_size),
       "the backbone's input is S x S pixels (default 224), or H high and W wide", "",
       "features.preprocessing.image_size"},
      {"resize", "KIND", one_of(p.resize, kResizes),
       "shortest (then centre crop; default), squash or pad", "", "features.preprocessing.resize"},
      {"crop-pct", "F", number(p.crop_pct, {0, 1, "", true}),
       "resize to the size divided by F before the crop (default 1)", "",
       "features.preprocessing.crop_pct"},
      {"interpolation", "KIND", one_of(p.interpolation, kInterpolations),
       "bicubic (default) or bilinear", "", "features.preprocessing.interpolation"},
      {"resampler", "KIND", one_of(p.resampler, kResamplers),
       "pillow (default), torch, pillow12 (Pillow before 13), or transformers (version 5)", "",
       "features.preprocessing.resampler"},
      {"mean", "V[,V,V]", channels(p.mean, false), "subtracted from pixels scaled to 0…1", "",
       "features.preprocessing.mean"},
      {"std", "V[,V,V]", channels(p.std, true), "divides them", "", "features.preprocessing.std"},
  };
}

void size_tiles(const GivenWords& given, ExtractOptions& options) {
  preprocess::Preprocessing& p = options.preprocessing;
  if (given.contains("tile-size") && !given.contains("tiles"))
    throw ConfigError("--tile-size needs --tiles");
  if (given.contains("tiles") && p.tiles.size == 0)
    p.tiles.size = static_cast<int>(p.image_size.width);
}

void finish_pixels(ExtractOptions& options) {
  preprocess::Preprocessing& p = options.preprocessing;
  refuse_constants_of_levels(p.mean, p.std);
  if (p.tiles.size > 0 && !p.image_size.is_square())
    throw ConfigError(concat("--tiles are squares, and the backbone's input is ", p.image_size,
                             "; give --image-size S"));
  if (!options.mask.empty()) p.mask = load_mask(options.mask, options.reader);
}

}  // namespace coldframe::extract
