// A cut cache also holds, for each frame of each view, what enters one block of the ViT: that block
// and all behind it can then be trained without the frames and without what comes before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cache/format/recipe.h"
#include "cache/format/storage_type.h"

namespace coldframe::cache {

struct Cut {
  std::int64_t block = 0;  // counted from 0; before block 0 the frames themselves are kept
  // One frame's: tokens [N, D], prefix tokens and positions included, or pixels [H, W, 3].
  std::vector<std::int64_t> shape;
  DType storage = DType::kFp16;  // of tokens; pixels are uint8

  bool is_pixels() const { return block == 0; }
  DType type() const { return is_pixels() ? DType::kUint8 : storage; }
  std::size_t row_bytes() const;  // of one frame
  bool operator==(const Cut&) const = default;
};

// Stored rows as numbers.
std::vector<float> values_of(const Cut& cut, std::span<const std::byte> rows);

// The value of Recipe::storage under "cut": {"block": 8, "shape": [197, 384]}.
Json to_json(const Cut& cut);
// `storage`: of the cache. CacheError when the recipe's cut is none.
std::optional<Cut> find_cut(const Recipe& recipe, DType storage);

}  // namespace coldframe::cache
