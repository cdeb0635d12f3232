// The overview says what a cache holds and how it was made, from the metadata alone: `info` and
// `report` show it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cache/read/reader.h"
#include "cache/tool/command.h"

namespace coldframe::cache::tool {

// Everything that `info --json` prints. Detail::kWithoutSources is enough.
Json describe_cache(const CacheReader& cache, const std::string& path);

// Rows of that description: what is inside, and the recipe line by line.
TextRows overview_rows(const Json& description);
using Pairs = std::vector<std::pair<std::string, std::string>>;
Pairs recipe_rows(const Json& recipe);

}  // namespace coldframe::cache::tool
