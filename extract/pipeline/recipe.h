// The recipe of a run of `extract`, which determines the caches that its own may be merged and
// compared with.
#pragma once

#include <optional>
#include <string>

#include "cache/format/recipe.h"
#include "extract/options.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// What --cut stores of each frame next to its features.
std::optional<cache::Cut> cut_of(const ExtractOptions& options, const vit::Backbone& backbone);

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone);

// Sets the options that a recipe states for frames and their features. Leaves the input, weight and
// mask files, the machine and other cache contents (views, thumbnails, a cut) unchanged. DataError
// for values that this version does not accept or would interpret differently.
ExtractOptions follow_recipe(const cache::Recipe& recipe, ExtractOptions options);
// The same for display: one --config line each.
std::string recipe_lines(const cache::Recipe& recipe);

}  // namespace coldframe::extract
