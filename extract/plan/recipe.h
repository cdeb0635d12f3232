// The recipe that a run of `extract` stands for: what its cache may be mixed and compared with.
#pragma once

#include <optional>

#include "cache/format/cut.h"
#include "cache/format/recipe.h"
#include "extract/options/options.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// --cut stores this of each frame beside its features.
std::optional<cache::Cut> cut_of(const ExtractOptions& options, const vit::Backbone& backbone);

cache::Recipe make_recipe(const ExtractOptions& options, const vit::Backbone& backbone);

}  // namespace coldframe::extract
