// The tables of exams and frames that `export` writes and `import` takes back.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/store/reader.h"

namespace coldframe::cache::tool {

// Columns of ours; those of the input follow, and one that has such a name gets a prefix.
inline const std::vector<std::string> kExamColumns = {
    "exam", "patient", "offset", "frames", "start_time", "source_kind", "width", "height"};
inline const std::vector<std::string> kFrameColumns = {"exam",    "slot",  "time_s",
                                                       "present", "index", "source"};
inline constexpr const char* kElapsedColumn = "elapsed_start";  // after those of exams, if known
inline constexpr const char* kOfTheInput = "column ";           // the prefix

inline bool is_ours(const std::string& name, const std::vector<std::string>& table) {
  return (name == kElapsedColumn && table == kExamColumns) ||
         std::find(table.begin(), table.end(), name) != table.end();
}

// Convert the name of an input's column to its name in the table, and back.
inline std::string name_in_table(const std::string& name, const std::vector<std::string>& table) {
  return is_ours(name, table) ? kOfTheInput + name : name;
}
inline std::string name_in_input(const std::string& name, const std::vector<std::string>& table) {
  const std::string prefix = kOfTheInput;
  const bool prefixed = name.starts_with(prefix) && is_ours(name.substr(prefix.size()), table);
  return prefixed ? name.substr(prefix.size()) : name;
}

// A separate file records how exported features were made, so that they can be imported under
// their recipe.

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
