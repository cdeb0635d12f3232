// The recipe that a run of `extract` stands for: what its cache may be mixed and compared with.
#pragma once

#include <optional>
#include <string>

#include "cache/format/recipe.h"
#include "extract/options.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// --cut stores this of each frame beside its features.
std::optional<cache::Cut> cut_of(const ExtractOptions& options, const vit::Backbone& backbone);

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone);

// Sets what a recipe states of frames and their features; the input, files of weights and a mask,
// the machine and what else a cache may hold (views, thumbnails, a cut) stay as they are. DataError
// for what this version's options do not take, or would do otherwise.
ExtractOptions follow_recipe(const cache::Recipe& recipe, ExtractOptions options);
// The same, for people: a line for --config each.
std::string recipe_lines(const cache::Recipe& recipe);

}  // namespace coldframe::extract
