#include "extract/pipeline/recipe.h"

#include <algorithm>
#include <iterator>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options.h"

namespace coldframe::extract {
namespace {

constexpr const char* kExifKey = "features.reading.exif";  // states that the option is not given

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

// The rows of what a recipe states of one frame's features and of which frames there are, stored as
// which type; views, thumbnails and a cut are of the cache.
OptionRows rows_of_frames(ExtractOptions& options) {
  OptionRows rows;
  for (const OptionRows& group :
       {pixel_options(options), backbone_options(options), clip_options(options),
        volume_options(options), input_options(options), storage_options(options)})
    std::ranges::copy_if(group, std::back_inserter(rows), [](const OptionRow& row) {
      return !row.key.empty() && row.name != std::string_view("thumbnails");
    });
  return rows;
}

// The value that a recipe has at a key such as "storage.selection.every"; null: none.
Json value_at(const cache::Recipe& recipe, const std::string& key) {
  const std::vector<std::string> names = split(key, '.');
  Json value = names.front() == "features" ? recipe.features : recipe.storage;
  for (std::size_t i = 1; i < names.size(); ++i)
    value = value.is_object() ? value.value(names[i], Json()) : Json();
  return value;
}

void restore(const OptionRow& row, const Json& recorded) {
  try {
    if (!recorded.is_null()) row.set.restore(row.name, recorded);
  } catch (const Json::exception&) {
    throw DataError(concat("it has ", recorded.dump(), " at ", row.key, ", and --", row.name,
                           " takes no such value"));
  }
}

// DataError unless the options make frames and pixels as the recipe says, and nothing else.
void require_followed(const cache::Recipe& recipe, ExtractOptions options) {
  cache::Recipe made = recipe;  // for what these options do not decide
  made.features["preprocessing"] = preprocess::to_json(options.preprocessing);
  made.features.erase("reading");
  made.features.erase("clip");
  made.storage = Json::object();
  for (const char* key : {"views", "augment", "thumbnails", "cut"})
    if (recipe.storage.contains(key)) made.storage[key] = recipe.storage[key];
  record(rows_of_frames(options), made);
  const auto differences = cache::differences(recipe, made, {"it has", "this version"});
  if (!differences.empty()) throw DataError(join(differences, "; "));
}

// Lists have commas, sizes an x, --slices colons between their parts.
std::string option_word(const OptionRow& row, const Json& value) {
  if (row.value_name == nullptr) return "true";
  if (!value.is_structured()) return value.is_string() ? value.get<std::string>() : value.dump();
  std::vector<std::string> parts;
  for (const Json& part : value) parts.push_back(part == "last" ? "" : part.dump());
  return join(parts, value.is_object()                            ? ":"
                     : row.name == std::string_view("image-size") ? "x"
                                                                  : ",");
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
  record(clip_options(chosen), recipe);
  if (const std::string name = weights_name(options.backbone); !name.empty())
    recipe.notes["weights"] = name;
  if (!options.license.empty()) recipe.notes[cache::kWeightsLicense] = options.license;
  if (options.repeated) recipe.notes["options"] = *options.repeated;
  return recipe;
}

ExtractOptions follow_recipe(const cache::Recipe& recipe, ExtractOptions options) {
  options.reader.ignore_exif = true;  // where the recipe does not say otherwise
  options.streams = frames::kNoStreams;
  try {
    for (const OptionRow& row : rows_of_frames(options)) restore(row, value_at(recipe, row.key));
    if (const Json shape = value_at(recipe, "features.backbone.architecture"); !shape.is_null())
      options.backbone.stated = vit::architecture_from_json(shape);
    auto& columns = options.frame_columns;
    const std::string& streams = options.streams;
    if (streams != frames::kNoStreams && std::ranges::find(columns, streams) == columns.end())
      columns.push_back(streams);
    finish_input(options);
    finish_clips(options);
    finish_volumes(options);
    finish_pixels(options);
    finish_backbone(options);
    require_followed(recipe, options);
  } catch (const Error& error) {
    throw DataError(concat("the recipe cannot be followed: ", error.what()));
  }
  return options;
}

std::string recipe_lines(const cache::Recipe& recipe) {
  ExtractOptions options;
  std::string text =
      "# How these exams' features were made: coldframe extract --config extract.ini --weights "
      "FOLDER\n";
  const auto add = [&](const char* name, const std::string& word) {
    text += concat(name, " = ", word, "\n");
  };
  const bool upright = !value_at(recipe, kExifKey).is_null();
  for (const OptionRow& row : rows_of_frames(options)) {
    const Json value = value_at(recipe, row.key);
    if (value.is_null() || value == "all" || row.key == kExifKey) continue;
    const std::string word = option_word(row, value);
    if (row.name == std::string_view("streams")) add("frame-columns", word);
    add(row.name, word);
  }
  if (!upright) add("ignore-exif", "true");
  if (!value_at(recipe, "features.preprocessing.mask").is_null())
    text += "# and the mask of those frames, with --mask\n";
  return text;
}

}  // namespace coldframe::extract
