// Deletes exams from a cache, for instance when a consent is withdrawn.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/format/layout.h"

namespace coldframe::cache {

struct PruneReport {
  std::size_t exams = 0, failures = 0;  // taken out: exams with features, rows of failures
  std::size_t left = 0;                 // exams
  std::vector<std::string> unknown;     // ids that the cache does not have
};

// Takes the exams with these ids out, in all revisions and with their failures: every file that has
// something of them is written anew under its own name, whole or not at all, and the others stay as
// they are; so do all features and metadata of the exams that are left. Their places in the input
// are kept free (`tombstone`). A process that is killed leaves each exam there as it was or gone,
// and the next call goes on. A single file is packed first, if shards lie beside it. CacheError:
// somebody is writing to the cache. ConfigError: no exam would be left.
PruneReport prune(const Location& location, const std::unordered_set<std::string>& ids);

}  // namespace coldframe::cache
