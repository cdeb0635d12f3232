// The checksums behind HDF5's own end: of the metadata, which is compared when a file is opened,
// and of the whole file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "cache/format/format.h"
#include "cache/hdf5/file_reader.h"
#include "common/files/file.h"

namespace coldframe::cache {

// XXH3-128 of all bytes but the chunks of features, cut and thumbnails, then XXH3-128 of all bytes
// and of the former. `bytes`: a file as FileWriter leaves it.
std::array<std::byte, kTrailerBytes> trailer_of(const ByteSource& bytes);

// The file as it is, errors of reading it being CacheErrors.
std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path);

// Other programs that open a file for writing (h5py in mode r+, HDFView) cut the trailer off when
// they close it. CacheError where the file cannot be read at all.
bool lacks_trailer(const std::filesystem::path& path);
// Puts the file with a trailer in the place of one without.
void write_trailer(const std::filesystem::path& path);

// kMetadata reads what is not features, cut or thumbnails, whose own checksums are compared when
// they are read; kWhole reads every byte, at several GB/s from the page cache. kWithoutTrailer
// opens a file that lacks it and compares HDF5's own checksums instead.
enum class Check { kMetadata, kWhole, kWithoutTrailer };

struct CheckedFile {
  std::unique_ptr<InputFile> bytes;  // without the trailer
  std::unique_ptr<hdf5::FileReader> reader;
  std::uint64_t size = 0;  // with the trailer
};

// CacheError: missing, not a cache, truncated, damaged.
CheckedFile open_checked(const std::filesystem::path& path, Check check);

}  // namespace coldframe::cache
