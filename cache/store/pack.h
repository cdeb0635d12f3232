// A single-file cache: its shards go into the one file.
#pragma once

#include <vector>

#include "cache/format/exam.h"
#include "cache/format/layout.h"

namespace coldframe::cache {

// Packs `x.h5` (if it exists) and every shard beside it into a new `x.h5`, the valid revisions in
// the order of the input, and then removes those shards. A crash in between leaves duplicates,
// which readers and the next call tolerate. Nothing to do without shards.
void pack(const Location& location);

// New labels, patients or times without extracting again.

// Publishes exams whose metadata changed as new revisions with the features that the cache has, and
// removes shards in which nothing valid is left. `exams` carry the new metadata; ids must be in the
// cache and their frames the same. Whoever calls this has held the writer's lock (lock.h) since
// before it looked at the cache; a ShardWriter may be open.
void update_metadata(const Location& location, const std::vector<ExamInfo>& exams);

}  // namespace coldframe::cache
