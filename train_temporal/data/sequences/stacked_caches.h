// Several caches, one of each stream, as one list of exams: an exam has the frames that the first
// cache has of it, and behind them those of the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/store/reader.h"

namespace coldframe::temporal {

// A cache that holds one stream of the exams.
struct NamedCache {
  std::string name;  // of the stream; empty: the only cache
  std::filesystem::path path;
};

// The frame column of exams of several caches that names each frame's own, and the key of a recipe
// whose caches differ, under which each has its own by name.
inline constexpr const char* kStreamColumn = "stream";
inline constexpr const char* kRecipesOfStreams = "streams";

struct StackedCaches {
  struct Part {  // an exam of one of the caches
    std::size_t cache, exam;
  };
  std::vector<std::string> names;  // of the caches' streams
  cache::Recipe recipe;
  std::vector<cache::ExamInfo> exams;
  std::vector<std::vector<Part>> parts;               // [exam] in the order of frames
  std::vector<std::vector<std::uint64_t>> checksums;  // [exam][view] of its parts' checksums
  std::vector<cache::Failure> failures;
  // What is said of a column of which two caches have different values for an exam.
  std::map<std::string, std::string> contradictions;
};

// Matches exams by id: an exam's start is the earliest, and frames' times count from there where
// all caches know when it began, else from each cache's own first frame. Patient and columns are
// those of the first cache that has a value. `caches`: as `named` says, two or more. CacheError:
// features of different width, storage or views. DataError: an exam that is of two patients.
StackedCaches stack_caches(std::span<const cache::CacheReader> caches,
                           std::span<const NamedCache> named);

// Does what CacheReader::scan_stored() does, for the exams of `stacked`.
void scan_stacked(std::span<const cache::CacheReader> caches, const StackedCaches& stacked,
                  const std::string& view, std::span<const std::size_t> exams,
                  const cache::CacheReader::VisitStored& body);

}  // namespace coldframe::temporal
