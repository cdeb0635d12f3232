// A file of its own tells how exported features were made, so that they can come back under their
// recipe.
#pragma once

#include <filesystem>
#include <string>

#include "cache/read/reader.h"

namespace coldframe::cache::tool {

// The recipe of one view without thumbnails and cut: neither the other views nor these come back.
std::string recipe_file(const CacheReader& cache, const std::string& view);

struct ExportedRecipe {
  Recipe recipe;
  DType storage;
  std::string precision;
  std::int64_t dimension = 0;
};
// DataError: not such a file, or one of augmented features, which no recipe describes alone.
ExportedRecipe read_recipe_file(const std::filesystem::path& path);

}  // namespace coldframe::cache::tool
