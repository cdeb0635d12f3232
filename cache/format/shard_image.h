// Lays out one file of a cache: contents and rows become HDF5 bytes and their trailer.
#pragma once

#include <filesystem>
#include <functional>

#include "cache/format/contents.h"
#include "cache/hdf5/byte_store.h"

namespace coldframe::cache {

// Writes everything but the trailer. DataError when the metadata cannot be stored.
void write_image(hdf5::ByteStore& store, const ShardContents& contents, const ExamBytes& bytes);

// Gives names for a file that must replace none: the next one where a name is taken.
using NextName = std::function<std::filesystem::path()>;

// Builds the file in memory, then publishes it: for shards, which are bounded. `image` is where, so
// that one shard after another takes the same memory.
void publish_shard(const NextName& next, const ShardContents& contents, const ExamBytes& bytes,
                   hdf5::MemoryStore& image);

// Builds the file on disk under a temporary name, then publishes it: for exams that are larger than
// a shard, and over `path` for packing.
void publish_large(const NextName& next, const ShardContents& contents, const ExamBytes& bytes);
void publish_large(const std::filesystem::path& path, const ShardContents& contents,
                   const ExamBytes& bytes);

}  // namespace coldframe::cache
