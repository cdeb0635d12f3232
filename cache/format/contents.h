// One file of a cache holds this besides the features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/recipe.h"
#include "cache/hdf5/dataset.h"

namespace coldframe::cache {

// A dataset that has a row for each frame and a checksum for each exam.
struct RowArray {
  std::string name;  // for messages: "features of view clean"
  std::string path;  // in the file
  hdf5::Type type;
  std::vector<std::uint64_t> row_shape;
};

struct ShardHeader {
  Recipe recipe;
  std::int64_t dimension = 0;
  DType storage = DType::kFp16;
  std::vector<std::string> views;       // "clean" first
  std::vector<std::string> precisions;  // several only after packing shards that differ

  std::optional<Cut> cut = {};  // as the recipe says

  // The arrays are numbered: the features of each view, then the cut of each view.
  std::size_t arrays() const { return views.size() * (cut ? 2 : 1); }
  std::size_t cut_of(std::size_t view) const { return views.size() + view; }
  RowArray array(std::size_t number) const;
  std::size_t row_bytes(std::size_t array) const {
    if (array >= views.size()) return cut->row_bytes();
    return static_cast<std::size_t>(dimension) * bytes_of(storage);
  }
};

// CacheError that prints the differences and then `advice`, unless both can be of one cache.
// `name`: of the second.
void require_same_cache(const ShardHeader& first, const ShardHeader& other, const std::string& name,
                        const std::string& advice = "");

// The thumbnails (JPEG) of an exam's frames, without their bytes.
struct StoredThumbnails {
  std::vector<std::uint64_t> sizes;  // [T] in bytes, 0 for a frame without one; empty: none stored
  std::uint64_t checksum = 0;        // XXH3 of all of them, concatenated

  std::uint64_t bytes() const {
    return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  }
};

struct StoredExam {
  ExamInfo info;
  std::vector<std::uint64_t> checksums;  // XXH3 of the stored rows, one per array
  StoredThumbnails thumbnails = {};
};

struct ShardContents {
  ShardHeader header;
  std::vector<StoredExam> exams;
  std::vector<Failure> failures;
};

// Hands over the stored bytes of all exams, in their order and in pieces of any size. A function is
// not called where there are no bytes.
using Append = std::function<void(std::span<const std::byte> bytes)>;
struct ExamBytes {
  std::function<void(std::size_t array, const Append& append)> rows;
  std::function<void(const Append& append)> thumbnails;
};

// ExamBytes that are read one exam at a time, by its index in the contents. Each function fills the
// span that it is given. The contents must outlive the result.
using ReadRows =
    std::function<void(std::size_t exam, std::size_t array, std::span<std::byte> rows)>;
using ReadThumbnails = std::function<void(std::size_t exam, std::span<std::byte> bytes)>;
ExamBytes exam_by_exam(const ShardContents& contents, ReadRows read_rows,
                       ReadThumbnails read_thumbnails);

}  // namespace coldframe::cache
