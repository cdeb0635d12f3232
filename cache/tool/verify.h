// Looks at everything in a cache that can be wrong, and goes on after each thing that is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/format/layout.h"

namespace coldframe::cache {

struct Finding {
  std::string file;  // "" when it concerns the cache as a whole
  std::string exam;  // "" when it concerns no exam
  std::string problem;
};

struct VerifyReport {
  // Counts of what could be read, superseded revisions too.
  std::size_t files = 0, exams = 0, frames = 0, thumbnails = 0;
  std::vector<Finding> findings;
  std::vector<std::string> repaired;  // files whose trailer was written anew
};

// Checksums of files and of every exam's features and thumbnails, structure, one recipe, exams
// stored twice, ordinals that occur twice or not at all. CacheError only when there is no cache at
// all. kTrailers: files that lack the trailer and hold exams that match their own checksums get it
// anew first; others stay as they are. Nobody else may write to the cache then (CacheError).
enum class Repair { kNothing, kTrailers };
VerifyReport verify(const Location& location, Repair repair = Repair::kNothing);

}  // namespace coldframe::cache
