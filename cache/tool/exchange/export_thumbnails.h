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

// Writes them into `folder`, which it makes. ConfigError when the cache has no thumbnails;
// SystemError when they cannot be written.
void write_thumbnails(const CacheReader& cache, const std::vector<std::size_t>& exams,
                      const std::filesystem::path& folder);

// ConfigError when something else than exported thumbnails lies in `folder`.
void require_thumbnails(const std::filesystem::path& folder);

}  // namespace coldframe::cache::tool
