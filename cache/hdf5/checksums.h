// HDF5's own checksums, which are compared where no trailer vouches for a file. Internal to
// cache/hdf5.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/hdf5/file_reader.h"
#include "common/files/bytes/byte_source.h"

namespace coldframe::cache::hdf5 {

// HDF5 stores Jenkins' lookup3 (initial value 0) of a block of metadata in the 4 bytes after it.
std::uint32_t lookup3(std::span<const std::byte> bytes);
// The last 4 bytes of a chunk hold Fletcher's checksum of the others.
std::uint32_t fletcher32(std::span<const std::byte> bytes);

// read_block() of metadata. CacheError where the checksum behind them is compared and another.
std::vector<std::byte> read_metadata_block(const ByteSource& store, std::uint64_t address,
                                           std::uint64_t size, Checksums checksums);
// CacheError unless the chunk has its checksum.
void check_chunk(const ByteSource& store, const Extent& chunk);

}  // namespace coldframe::cache::hdf5
