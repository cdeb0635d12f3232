// Finds what is bright, what stands still and what moves in the frames of an exam, and the
// connected parts of what was found: common ground of --crop auto and of the search for burned-in
// text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "extract/decode/frame.h"

namespace coldframe::preprocess {

// Per pixel the darkest and the brightest level, that of its brightest channel, over frames of one
// size. Their order does not matter.
struct LevelRange {
  int width = 0, height = 0;
  std::vector<std::uint8_t> low, high;  // [height, width]

  // False: the image has another size than the first one, and was not looked at.
  bool add(const frames::Image& image);

  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
  }
  int change(std::size_t pixel) const { return high[pixel] - low[pixel]; }
};

// Numbers the connected parts of what is not 0 in `mask`, which may touch at corners only, from 1
// on in the order of their first pixels, row by row; 0 elsewhere. Returns how many there are.
std::size_t label_connected_components(const cv::Mat1b& mask, cv::Mat1i& parts);

// --crop auto: the part of the frames that holds the image proper, without letterbox borders, the
// surroundings of a fundus disc or of an ultrasound sector, burned-in text and traces beside it.

// The smallest rectangle around the parts that are both lit (brighter than near-black in any of the
// frames) and large; where the frames differ, around those in which something moves, so that text
// that stands still is left out. `images` are evenly spread frames of one exam and of one size, not
// empty. Deterministic; the whole frame where nothing is found that is worth keeping apart.
frames::Rect find_crop(std::span<const frames::Image> images);

inline constexpr int kCropSamples = 8;  // frames that are enough to look at

}  // namespace coldframe::preprocess
