// The XXH3-128 behind HDF5's own end. It is checked before anything else of a file is believed.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>

#include "common/files/file.h"

namespace coldframe::cache {

std::array<std::byte, 16> digest_of(const ByteSource& bytes);

// The file as it is, errors of reading it being CacheErrors.
std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path);

// The file with its trailer checked and hidden. CacheError: missing, not a cache, truncated,
// damaged. Reads the whole file once, at several GB/s from the page cache.
std::unique_ptr<InputFile> open_checked(const std::filesystem::path& path);

}  // namespace coldframe::cache
