// Loads and checks all that one file holds besides the features.
#pragma once

#include "cache/format/contents.h"
#include "cache/hdf5/file_reader.h"

namespace coldframe::cache {

// CacheError (without the file's name) for whatever FORMAT.md does not allow.
ShardContents read_metadata(const hdf5::FileReader& file, Detail detail);

}  // namespace coldframe::cache
