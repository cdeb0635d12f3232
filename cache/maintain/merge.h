// Several caches of one recipe become one file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "cache/format/layout.h"

namespace coldframe::cache {

struct MergeReport {
  std::size_t exams = 0, failures = 0;
  std::size_t duplicates = 0;  // exams that several inputs have
  bool renumbered = false;     // the inputs' places collided
};

// Writes `out` (a single file that is not there yet) whole or not at all; the inputs stay as they
// are. Of exams with one id the highest revision holds; equal revisions must have equal features.
// Exams keep their places in the input when no two have the same, as those of an array job's
// workers; otherwise all are numbered anew, input after input. Features are copied exam by exam as
// stored; the metadata of all exams are in memory. CacheError: recipes that differ (key by key),
// features that differ, an output that is there.
// `without_thumbnails`: they are left out, and the recipe no longer has them.
MergeReport merge_caches(const Location& out, const std::vector<std::filesystem::path>& inputs,
                         bool without_thumbnails = false);

}  // namespace coldframe::cache
