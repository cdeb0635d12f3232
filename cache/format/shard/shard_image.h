// Lays out one file of a cache: contents and rows become HDF5 bytes and their trailer.
#pragma once

#include <filesystem>
#include <functional>

#include "cache/format/contents.h"
#include "cache/hdf5/byte_store.h"
#include "common/files/publish/atomic_file.h"

namespace coldframe::cache {

// Writes everything but the trailer. DataError when the metadata cannot be stored.
void write_image(hdf5::ByteStore& store, const ShardContents& contents, const ExamBytes& bytes);

// Gives further names, in the same folder, where another file has one.
using NextName = std::function<std::filesystem::path()>;

// Builds the file in memory, then publishes it in nobody's place: for shards, which are bounded.
// `image` is where, so that one shard after another takes the same memory.
void publish_shard(const std::filesystem::path& path, const NextName& next,
                   const ShardContents& contents, const ExamBytes& bytes, hdf5::MemoryStore& image);

// Builds the file on disk under a temporary name, then publishes it: for packing, and for exams
// that are larger than a shard.
using PublishAs = std::function<void(AtomicFile& file)>;
PublishAs as_new(NextName next);        // under the next free name
PublishAs as_named(Existing existing);  // under its own
void publish_large(const std::filesystem::path& path, const ShardContents& contents,
                   const ExamBytes& bytes, const PublishAs& as);

}  // namespace coldframe::cache
