#include "extract/plan/recipe.h"

#include <cmath>

#include "common/text/text.h"

namespace coldframe::extract {
namespace {

using frames::Window;

std::string to_text(const Window& window) {
  if (window.kind == Window::Kind::kFixed)
    return concat(exact(window.center), ',', exact(window.width));
  return concat(exact(window.low), "%,", exact(window.high), '%');
}

// Describes how values and volumes became frames. Caches without the key `exif` hold JPEG images as
// they were stored.
Json describe_reading(const frames::ReaderOptions& reader) {
  Json json = Json::object();
  if (reader.window.kind != Window::Kind::kFile) json["window"] = to_text(reader.window);
  if (reader.axis != frames::ReaderOptions{}.axis)
    json["axis"] = std::string(1, "xyz"[reader.axis]);
  if (!reader.ignore_exif) json["exif"] = "upright";
  return json;
}

Json describe_slices(const frames::SliceRange& slices) {
  return {{"begin", slices.begin},
          {"end", slices.end < 0 ? Json("last") : Json(slices.end)},
          {"step", slices.step}};
}

// All but the number of frames, which has a key of its own.
Json describe_selection(const frames::FrameSelection& selection) {
  Json json = Json::object();
  if (selection.every != 1) json["every"] = selection.every;
  if (selection.fps > 0) json["fps"] = selection.fps;
  if (std::isfinite(selection.start_s)) json["start_s"] = selection.start_s;
  if (std::isfinite(selection.end_s)) json["end_s"] = selection.end_s;
  return json;
}

// "" for random weights, and for a name that JSON cannot hold.
std::string weights_name(const vit::BackboneOptions& backbone) {
  const auto& file = backbone.weights.empty() ? backbone.module : backbone.weights;
  std::string name = file.filename().string();
  return is_valid_utf8(name) ? name : "";
}

}  // namespace

std::optional<cache::Cut> cut_of(const ExtractOptions& options, const vit::Backbone& backbone) {
  if (!options.cut) return std::nullopt;
  const ImageSize& size = options.preprocessing.image_size;
  const std::vector<std::int64_t> pixels = {size.height, size.width, 3};
  return cache::Cut{*options.cut, *options.cut == 0 ? pixels : backbone.cut_shape(),
                    options.storage};
}

// A key is written only where it says something else than the default, so that caches made before
// it existed can be continued.
cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone) {
  const frames::ReaderOptions& reader = options.reader;
  cache::Recipe recipe;
  recipe.features["backbone"] = backbone.describe();
  recipe.features["preprocessing"] = preprocess::to_json(options.preprocessing);
  if (const Json reading = describe_reading(reader); !reading.empty())
    recipe.features["reading"] = reading;
  const std::int64_t frames = options.selection.count;
  recipe.storage["frames"] = frames == 0 ? Json("all") : Json(frames);
  recipe.storage["views"] = augment::view_names(options.augmentation);
  if (options.augmentation.views > 0)
    recipe.storage["augment"] = augment::to_json(options.augmentation);
  recipe.storage["store"] = cache::storage_name(options.storage);
  if (options.thumbnails > 0) recipe.storage["thumbnails"] = options.thumbnails;
  if (const auto cut = cut_of(options, backbone)) recipe.storage["cut"] = cache::to_json(*cut);
  if (const Json chosen = describe_selection(options.selection); !chosen.empty())
    recipe.storage["selection"] = chosen;
  if (reader.accept_broken_tail) recipe.storage["broken_tail"] = "accepted";
  if (reader.slices != frames::SliceRange{})
    recipe.storage["slices"] = describe_slices(reader.slices);
  if (const std::string name = weights_name(options.backbone); !name.empty())
    recipe.notes["weights"] = name;
  if (reader.grouping == frames::DicomGrouping::kStudy) recipe.storage["group"] = "study";
  return recipe;
}

}  // namespace coldframe::extract
