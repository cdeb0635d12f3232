#include "extract/preprocess/tiles.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::preprocess {
namespace {

constexpr std::size_t kMostTiles = 1000000;

std::vector<int> starts(int length, int side, int step) {
  std::vector<int> result;
  for (int at = 0; at < length - side; at += step) result.push_back(at);
  result.push_back(length - side);
  return result;
}

}  // namespace

std::vector<frames::Rect> plan_tiles(const Tiling& tiling, int width, int height) {
  if (tiling.size == 0 || (width <= tiling.size && height <= tiling.size))
    return {{0, 0, width, height}};
  const int side = std::min({tiling.size, width, height});
  const int step = std::max(1, static_cast<int>(std::nearbyint(side * (1.0 - tiling.overlap))));
  const auto columns = starts(width, side, step), rows = starts(height, side, step);
  if (columns.size() * rows.size() > kMostTiles)
    throw DataError(concat("a frame of ", width, "×", height, " pixels would have ",
                           columns.size() * rows.size(), " tiles, more than ", kMostTiles,
                           "; give a larger --tile-size or less overlap"));
  std::vector<frames::Rect> tiles;
  for (const int y : rows) {
    for (const int x : columns) tiles.push_back({x, y, side, side});
  }
  return tiles;
}

}  // namespace coldframe::preprocess
