#include <algorithm>
#include <cmath>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/input/crop_rule.h"
#include "extract/frames/source.h"
#include "extract/options/option_groups.h"
#include "extract/preprocess/steps.h"

namespace coldframe::extract {
namespace {

namespace po = boost::program_options;

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
    if (!parse_double(trim(part), value) || !std::isfinite(value) || (positive && value <= 0))
      throw ConfigError(concat("--", option, " '", text, "': '", part, "' is not a ",
                               positive ? "positive " : "", "number"));
    values[channel] = static_cast<float>(value);
  }
  return values;
}

// "0.485,0.456,0.406", each number divided by `by`.
std::string channels_text(const std::array<float, 3>& values, double by) {
  return concat(values[0] / by, ",", values[1] / by, ",", values[2] / by);
}

// Behind constants for levels of 0…255 all images are alike. No mean of pixels of 0…1 is above 1,
// and their deviation is at most 0.5; a --std of 1 leaves them as they are.
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
  const frames::SourceKind* kind = nullptr;
  const auto source = frames::open_source(path, reader, kind);
  if (source->frame_count() != 1)
    throw DataError(concat("--mask '", path, "' holds several frames; expected one image"));
  std::shared_ptr<const preprocess::Mask> mask;
  constexpr std::int64_t kFirst = 0;
  source->read(std::span(&kFirst, 1), [&](frames::Frame&& frame) {
    mask = std::make_shared<const preprocess::Mask>(preprocess::make_mask(frame.pixels));
  });
  return mask;
}

}  // namespace

void PixelOptions::describe(po::options_description& description) {
  const auto text = [](std::string& target, const char* name) {
    return po::value(&target)->value_name(name);
  };
  auto add = description.add_options();
  add("mask", text(mask, "FILE"), "image of the frames' size: what is black there becomes black");
  add("crop", text(crop, "X,Y,W,H"),
      "keep this rectangle of each frame; auto: fundus disc, ultrasound sector, no borders");
  add("spacing", po::value(&spacing)->value_name("MM"),
      "resample to MM millimetres per pixel, after the crop");
  add("tiles", po::value(&tiles)->value_name("OVERLAP")->implicit_value("0.25"),
      "slide a window over large frames and average its features, e.g. 0.25 (default overlap)");
  add("tile-size", po::value(&tile_size)->value_name("PX"),
      "the window's side in pixels of the frame (default: --image-size)");
  add("image-size", text(image_size, "S|HxW"),
      "the backbone's input is S x S pixels (default 224), or H high and W wide");
  add("resize", text(resize, "KIND"), "shortest (then centre crop; default), squash or pad");
  add("crop-pct", po::value(&crop_pct)->value_name("F"),
      "resize to the size divided by F before the crop (default 1)");
  add("interpolation", text(interpolation, "KIND"), "bicubic (default) or bilinear");
  add("resampler", text(resampler, "KIND"),
      "pillow (default), torch, pillow12 (Pillow before 13), or transformers (version 5)");
  add("mean", text(mean, "V[,V,V]"), "subtracted from pixels scaled to 0…1");
  add("std", text(std, "V[,V,V]"), "divides them");
}

void PixelOptions::apply(ExtractOptions& options) const {
  preprocess::Preprocessing& p = options.preprocessing;
  apply_resize(p);
  apply_tiles(p);
  if (!crop.empty()) {
    const auto rule = frames::parse_crop(crop);
    if (!rule) throw ConfigError(concat("--crop '", crop, "': expected ", frames::kCropHelp));
    p.crop = *rule;
  }
  if (spacing != kNotGiven) {
    if (!(spacing > 0))
      throw ConfigError(concat("--spacing ", spacing, ": expected more than 0 mm"));
    p.spacing_mm = spacing;
  }
  if (!mask.empty()) p.mask = load_mask(mask, options.reader);
}

void PixelOptions::apply_resize(preprocess::Preprocessing& p) const {
  using namespace preprocess;
  if (!image_size.empty()) p.image_size = parse_image_size(image_size);
  if (!resize.empty()) p.resize = choice("resize", resize, kResizes);
  if (crop_pct != kNotGiven) p.crop_pct = crop_pct;
  if (!interpolation.empty())
    p.interpolation = choice("interpolation", interpolation, kInterpolations);
  if (!resampler.empty()) p.resampler = choice("resampler", resampler, kResamplers);
  if (!mean.empty()) p.mean = parse_channels("mean", mean, false);
  if (!std.empty()) p.std = parse_channels("std", std, true);
  refuse_constants_of_levels(p.mean, p.std);
  if (!(p.crop_pct > 0 && p.crop_pct <= 1))
    throw ConfigError(concat("--crop-pct ", p.crop_pct, ": expected more than 0 and at most 1"));
}

void PixelOptions::apply_tiles(preprocess::Preprocessing& p) const {
  if (tiles.empty()) {
    if (tile_size != kNotGiven) throw ConfigError("--tile-size needs --tiles");
    return;
  }
  double overlap = 0;
  if (!parse_double(tiles, overlap) || !(overlap >= 0 && overlap <= 0.9))
    throw ConfigError(concat("--tiles '", tiles, "': expected the tiles' overlap, 0 to 0.9"));
  if (!p.image_size.is_square())
    throw ConfigError(concat("--tiles are squares, and the backbone's input is ", p.image_size,
                             "; give --image-size S"));
  const int size = tile_size == kNotGiven ? static_cast<int>(p.image_size.width) : tile_size;
  if (size < 8 || size > 65536)
    throw ConfigError(concat("--tile-size ", size, ": expected 8 to 65536 pixels"));
  p.tiles = {size, overlap};
}

}  // namespace coldframe::extract
