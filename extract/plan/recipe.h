// The recipe that a run of `extract` stands for: what its cache may be mixed and compared with.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/format/recipe.h"
#include "extract/options/options.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// --cut stores this of each frame beside its features.
std::optional<cache::Cut> cut_of(const ExtractOptions& options, const vit::Backbone& backbone);

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone);

// The options that choose an exam's frames and store their features as `storage` of a recipe says,
// a line for --config each. Views, thumbnails and a cut are not among them.
std::string frame_options(const Json& storage);
// True for options that a recipe records and that name no file.
bool is_recipe_option(std::string_view name);

}  // namespace coldframe::extract
