// Detects bright, static and moving pixels in the frames of an exam and labels their connected
// components, for --crop auto and the detection of burned-in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "extract/decode/frame.h"

namespace coldframe::preprocess {

// Per pixel the min and max, over frames of one size, of the level of its brightest channel.
// Independent of the frames' order.
struct LevelRange {
  int width = 0, height = 0;
  std::vector<std::uint8_t> low, high;  // [height, width]

  // False: the image differs in size from the first one and was ignored.
  bool add(const frames::Image& image);

  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x);
  }
  int change(std::size_t pixel) const { return high[pixel] - low[pixel]; }
};

// Labels the 8-connected components of the nonzero pixels of `mask` from 1, in row-major order of
// their first pixels; 0 elsewhere. Returns their number.
std::size_t label_connected_components(const cv::Mat1b& mask, cv::Mat1i& parts);

// --crop auto: the image region of the frames, without letterbox borders, the surroundings of a
// fundus disc or of an ultrasound sector, and burned-in text and traces next to it.

// The bounding box of all large, lit components (brighter than near-black in any frame); if the
// frames differ, only of those with motion, which excludes static text. `images`: evenly spaced
// frames of one exam and one size, not empty. Deterministic; the whole frame if no region is worth
// cropping to.
frames::Rect find_crop(std::span<const frames::Image> images);

inline constexpr int kCropSamples = 8;  // number of frames to sample

}  // namespace coldframe::preprocess
