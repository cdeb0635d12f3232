// The XXH3-128 behind HDF5's own end. It is checked before anything else of a file is believed.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>

#include "cache/hdf5/byte_store.h"

namespace coldframe::cache {

std::array<std::byte, 16> digest_of(const hdf5::ByteStore& store);

// The file with its trailer checked and hidden. CacheError: missing, not a cache, truncated,
// damaged. Reads the whole file once, at several GB/s from the page cache.
std::unique_ptr<hdf5::ReadOnlyFile> open_checked(const std::filesystem::path& path);

}  // namespace coldframe::cache
