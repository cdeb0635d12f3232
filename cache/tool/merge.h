// Several caches of one recipe become one file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/format/layout.h"

namespace coldframe::cache {

// Which version of an exam holds, where the inputs have it with different content. kNewest: the
// higher revision. Times of files decide nothing: copies lose them, and clocks differ.
enum class Prefer { kNone, kFirst, kNewest };

struct MergeOptions {
  // Left out, and the recipe no longer has them.
  bool without_thumbnails = false, without_cut = false;
  Prefer prefer = Prefer::kNone;
  // Put before the ids and patients of each input, in their order, so that exams of two sites that
  // have one name stay apart. Empty: none.
  std::vector<std::string> prefixes = {};
  // Exams to keep, by the ids that the inputs give them: all others are left out with their
  // failures, and their places stay free. Empty optional: all.
  std::optional<std::unordered_set<std::string>> only = {};
};

// An exam whose versions differ.
struct MergeConflict {
  std::string exam;
  std::filesystem::path kept, other;     // the inputs; without a decision the first and the second
  std::vector<std::string> differences;  // "column label '0' -> '1'", from `kept` to `other`
};

struct MergeReport {
  std::size_t exams = 0, failures = 0;
  std::size_t duplicates = 0;  // exams that several inputs have
  bool renumbered = false;     // ordinals of the inputs collided
  std::vector<MergeConflict> conflicts;
};

// Writes `out` (a single file that is not there yet) whole or not at all; the inputs stay as they
// are. Of exams with one id and the same content the highest revision holds; where patient, times,
// columns or features differ, `prefer` decides. Exams keep their places in the input when no two
// have the same, as those of an array job's workers; otherwise all are numbered anew, input after
// input. Features are copied exam by exam as stored; the metadata of all exams are in memory.
// CacheError: recipes that differ (key by key), an output that is there, exams that differ without
// a decision (all that differs in them). ConfigError: an output that is a folder, prefixes that are
// not as many as the inputs.
MergeReport merge_caches(const Location& out, const std::vector<std::filesystem::path>& inputs,
                         const MergeOptions& options = {});

// Lines for people: the first of the conflicts with all that differs in them, and how often each
// thing differs in all of them.
std::vector<std::string> conflict_lines(const std::vector<MergeConflict>& conflicts);

}  // namespace coldframe::cache
