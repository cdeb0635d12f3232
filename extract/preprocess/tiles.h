// --tiles: where the sliding window stands.
#pragma once

#include <vector>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// Square tiles of `tiling.size` pixels, row by row, each overlapping the one before by the stated
// fraction; the last of a row or column ends at the frame's border. A frame that is smaller than a
// tile is one tile as it is; one that is smaller along one edge only has tiles of that edge's
// length. Without tiling the whole frame. DataError beyond a million tiles.
std::vector<frames::Rect> plan_tiles(const Tiling& tiling, int width, int height);

}  // namespace coldframe::preprocess
