// Sums up the columns of a cache.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/reader.h"
#include "cache/tool/command.h"

namespace coldframe::cache::tool {

// Describes the columns of the chosen exams: [{name, type, values, missing, distinct, counts:
// [{value, exams}], min, max, mean}], the most frequent values first and at most `max_values` of
// them; min, max and mean for numbers.
Json describe_columns(const CacheReader& cache, std::span<const std::size_t> exams,
                      std::size_t max_values);

// A line for each: "age  integer, 21 to 93; 4 without a value". At most as many values are spelt
// out as were described.
TextRows column_rows(const Json& columns);

// The overview says what a cache holds and how it was made, from the metadata alone: `info` and
// `report` show it.

// Everything that `info --json` prints. Detail::kWithoutSources is enough.
Json describe_cache(const CacheReader& cache, const std::string& path);

// Rows of that description: what is inside, and the recipe line by line.
TextRows overview_rows(const Json& description);
using Pairs = std::vector<std::pair<std::string, std::string>>;
Pairs recipe_rows(const Json& recipe);

}  // namespace coldframe::cache::tool
