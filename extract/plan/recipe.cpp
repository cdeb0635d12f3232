#include "extract/plan/recipe.h"

#include <algorithm>
#include <iterator>

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

// The value that a recipe has at a key such as "storage.selection.every"; null: none.
Json value_at(const Json& storage, const std::string& key) {
  const std::vector<std::string> names = split(key, '.');
  if (names.front() != "storage") return nullptr;
  Json value = storage;
  for (std::size_t i = 1; i < names.size(); ++i)
    value = value.is_object() ? value.value(names[i], Json()) : Json();
  return value;
}

// Lists have commas, --slices colons between their parts.
std::string option_word(const Json& value) {
  if (!value.is_structured()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(part == "last" ? "" : option_word(part));
  return join(parts, value.is_array() ? "," : ":");
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
  recipe.storage["frames"] = "all";  // the first key
  record(view_options(chosen), recipe);
  record(storage_options(chosen), recipe);
  if (const auto cut = cut_of(options, backbone)) recipe.storage["cut"] = cache::to_json(*cut);
  record(input_options(chosen), recipe);
  if (const std::string name = weights_name(options.backbone); !name.empty())
    recipe.notes["weights"] = name;
  if (options.repeated) recipe.notes["options"] = *options.repeated;
  return recipe;
}

std::string frame_options(const Json& storage) {
  ExtractOptions options;
  OptionRows rows = input_options(options);
  std::ranges::copy_if(storage_options(options), std::back_inserter(rows),
                       [](const OptionRow& row) { return row.name == std::string_view("store"); });
  std::string text;
  for (const OptionRow& row : rows) {
    const Json value = value_at(storage, row.key);
    if (value.is_null() || value == "all") continue;
    const std::string word = row.value_name == nullptr ? "true" : option_word(value);
    if (row.name == std::string_view("streams")) text += concat("frame-columns = ", word, "\n");
    text += concat(row.name, " = ", word, "\n");
  }
  return text;
}

bool is_recipe_option(std::string_view name) {
  ExtractOptions options;
  const auto is_named = [&](const OptionRow& row) { return row.name == name && !row.set.is_local; };
  for (const OptionRows& rows : {backbone_options(options), pixel_options(options)})
    if (std::ranges::any_of(rows, is_named)) return name != "preset";
  for (const OptionRows& rows : {input_options(options), storage_options(options)})
    if (std::ranges::any_of(
            rows, [&](const OptionRow& row) { return is_named(row) && !row.key.empty(); }))
      return name != "thumbnails";
  return name == "cut" || name == "frame-columns";
}

}  // namespace coldframe::extract
