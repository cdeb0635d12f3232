#include "extract/plan/recipe.h"

#include "common/text/text.h"
#include "extract/options/option_groups.h"

namespace coldframe::extract {
namespace {

// What the options' rows say, under keys such as "storage.selection.every".
void record(const OptionRows& rows, cache::Recipe& recipe) {
  for (const OptionRow& row : rows) {
    if (row.recorded.is_null()) continue;
    const std::vector<std::string> names = split(row.key, '.');
    Json* place = names.front() == "features" ? &recipe.features : &recipe.storage;
    for (std::size_t i = 1; i < names.size(); ++i) place = &(*place)[names[i]];
    *place = row.recorded;
  }
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

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone) {
  ExtractOptions chosen = options;  // for the rows to refer to
  cache::Recipe recipe;
  recipe.features["backbone"] = backbone.describe();
  recipe.features["preprocessing"] = preprocess::to_json(options.preprocessing);
  recipe.storage["frames"] = "all";  // the first key, as in caches that are there
  record(view_options(chosen), recipe);
  record(storage_options(chosen), recipe);
  if (const auto cut = cut_of(options, backbone)) recipe.storage["cut"] = cache::to_json(*cut);
  record(input_options(chosen), recipe);
  if (const std::string name = weights_name(options.backbone); !name.empty())
    recipe.notes["weights"] = name;
  if (options.repeated) recipe.notes["options"] = *options.repeated;
  return recipe;
}

}  // namespace coldframe::extract
