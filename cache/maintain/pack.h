// A single-file cache: its shards go into the one file.
#pragma once

#include "cache/format/layout.h"

namespace coldframe::cache {

// Packs `x.h5` (if it exists) and every shard beside it into a new `x.h5`, the valid revisions in
// the order of the input, and then removes those shards. A crash in between leaves duplicates,
// which readers and the next call tolerate. Nothing to do without shards.
void pack(const Location& location);

}  // namespace coldframe::cache
