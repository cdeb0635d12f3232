// An exam's frames, as the cache stores them, become rows of a table of features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/read/reader.h"

namespace coldframe::temporal {

std::size_t row_bytes(const cache::CacheReader& cache);  // of one frame

// Copies the frames that are present, which are all finite numbers or a DataError; returns how many
// they are. `stored`: as CacheReader::scan_stored() gives them.
std::int64_t copy_present_rows(const cache::CacheReader& cache, std::size_t exam,
                               std::span<const std::byte> stored, std::byte* to);

}  // namespace coldframe::temporal
