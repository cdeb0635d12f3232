// Cuts rows into tiles of nearly the same height, so that none is left with a few rows.
#pragma once

#include <algorithm>

#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

inline std::int64_t tile_count(const Kernels& kernels, std::int64_t rows) {
  return (rows + kernels.rows - 1) / kernels.rows;
}

// body(first row, rows) for tiles of at most kernels.rows rows that cover [begin, end).
template <class Body>
void for_each_tile(const Kernels& kernels, std::int64_t begin, std::int64_t end, Body body) {
  const std::int64_t rows = end - begin, tiles = tile_count(kernels, rows);
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t from = begin + rows * i / tiles, to = begin + rows * (i + 1) / tiles;
    body(from, to - from);
  }
}

}  // namespace coldframe::vit::cpu
