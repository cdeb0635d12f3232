#include "extract/recipe.h"

namespace coldframe {

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone) {
  cache::Recipe recipe;
  recipe.features["backbone"] = backbone.describe();
  recipe.features["preprocessing"] = preprocess::to_json(options.preprocessing);
  recipe.storage["frames"] = options.frames == 0 ? Json("all") : Json(options.frames);
  recipe.storage["views"] = Json::array({"clean"});
  recipe.storage["store"] = options.storage == cache::StorageType::kFloat16 ? "float16" : "float32";
  return recipe;
}

}  // namespace coldframe
