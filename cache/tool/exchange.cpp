#include "cache/tool/exchange.h"

#include "cache/format/format.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

namespace {

constexpr const char* kName = "coldframe-export";

}  // namespace

std::string recipe_file(const CacheReader& cache, const std::string& view) {
  Recipe recipe = cache.recipe();
  for (const char* group : {kThumbnails, kCut}) recipe.storage.erase(group);  // the keys' names too
  if (recipe.storage.contains("views")) recipe.storage["views"] = Json::array({view});
  if (view == "clean") recipe.storage.erase("augment");
  const Json json{{"format", kName},
                  {"view", view},
                  {"dimension", cache.dimension()},
                  {"storage", dtype_name(cache.storage())},
                  {"precision", join(cache.precisions(), ", ")},
                  {"recipe", to_json(recipe)},
                  {"notes", recipe.notes}};
  return json.dump(2) + "\n";
}

ExportedRecipe read_recipe_file(const std::filesystem::path& path) {
  const Json json = read_json_file(path);
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) throw DataError(concat(path.string(), ": ", what));
  };
  require(json.is_object() && json.value("format", Json()) == kName,
          "not a recipe that `coldframe cache export` wrote");
  for (const char* key : {"view", "storage", "precision"})
    require(json.contains(key) && json[key].is_string(), concat("has no ", key));
  require(json.contains("dimension") && json["dimension"].is_number_unsigned() &&
              json.contains("recipe"),
          "has no dimension or no recipe");
  require(json["view"] == "clean",
          concat("is of the view '", json["view"].get<std::string>(),
                 "'; only features of the view clean can come back under their recipe: say how "
                 "these were made with --describe"));
  ExportedRecipe exported;
  try {
    exported.recipe = recipe_from_json(json["recipe"]);
  } catch (const CacheError& error) {
    require(false, error.what());
  }
  if (json.contains("notes") && json["notes"].is_object()) exported.recipe.notes = json["notes"];
  exported.storage = choice("storage", json["storage"].get<std::string>(), kStorageTypes);
  exported.precision = json["precision"].get<std::string>();
  exported.dimension = json["dimension"].get<std::int64_t>();
  return exported;
}

}  // namespace coldframe::cache::tool
