// Finds where the chunks of a dataset lie. Internal to cache/hdf5.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/hdf5/dataset.h"
#include "cache/hdf5/file_reader.h"
#include "cache/hdf5/messages.h"
#include "common/files/bytes/byte_source.h"

namespace coldframe::cache::hdf5 {

// The address of every chunk in order of its rows. Each has `layout.chunk[0]` rows, the last one
// padded, and fletcher32's checksum behind them. CacheError when one is missing, has another size
// or lies beyond the end of the file; its text begins with a verb, for the caller to name the
// dataset.
std::vector<std::uint64_t> chunk_addresses(const ByteSource& store, const ChunkLayout& layout,
                                           const DatasetSpec& spec, Checksums checksums);

}  // namespace coldframe::cache::hdf5
