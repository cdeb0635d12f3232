// One file of a cache holds this besides the features. Internal to cache/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/recipe.h"
#include "cache/format/storage_type.h"

namespace coldframe::cache {

struct ShardHeader {
  Recipe recipe;
  std::int64_t dimension = 0;
  StorageType storage = StorageType::kFloat16;
  std::vector<std::string> views;       // "clean" first
  std::vector<std::string> precisions;  // several only after packing shards that differ

  std::size_t row_bytes() const {
    return static_cast<std::size_t>(dimension) * value_bytes(storage);
  }
};

// The small JPEGs of an exam's frames, but for their bytes.
struct StoredThumbnails {
  std::vector<std::uint64_t> sizes;  // [T] in bytes, 0 for a frame without one; empty: none stored
  std::uint64_t checksum = 0;        // XXH3 of all of them, one behind the other

  std::uint64_t bytes() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  }
};

struct StoredExam {
  ExamInfo info;
  std::vector<std::uint64_t> checksums;  // XXH3 of the stored rows, one per view
  StoredThumbnails thumbnails = {};
};

struct ShardContents {
  ShardHeader header;
  std::vector<StoredExam> exams;
  std::vector<Failure> failures;
};

// Fills `rows` with the stored bytes of one view of one exam.
using RowSource =
    std::function<void(std::size_t exam, std::size_t view, std::span<std::byte> rows)>;

// The bytes that belong to the contents come from here.
struct ExamBytes {
  RowSource rows;
  std::function<void(std::size_t exam, std::span<std::byte> bytes)> thumbnails;
};

}  // namespace coldframe::cache
