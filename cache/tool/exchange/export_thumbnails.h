// The frames' small JPEGs as files.
#pragma once

#include <filesystem>
#include <vector>

#include "cache/read/reader.h"

namespace coldframe::cache::tool {

// The thumbnail of frame `slot` lies here, relative to the folder: "000007-E0007/012.jpg". `place`
// is the exam's among those that are exported. The exam's name keeps only letters, digits, '.', '-'
// and '_' of ASCII, since it may be any text.
std::filesystem::path thumbnail_path(std::size_t place, const std::string& exam, std::size_t slot);

// Makes `folder`, whole or not at all (one that is there is replaced), and returns how many files
// are in it. ConfigError when the cache has no thumbnails; SystemError when they cannot be written.
std::size_t export_thumbnails(const CacheReader& cache, const std::vector<std::size_t>& exams,
                              const std::filesystem::path& folder);

}  // namespace coldframe::cache::tool
