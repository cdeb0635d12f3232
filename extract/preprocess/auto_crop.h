// --crop auto: the part of the frames that holds the image proper, without letterbox borders, the
// surroundings of a fundus disc or of an ultrasound sector, burned-in text and traces beside it.
#pragma once

#include <span>

#include "extract/frames/frame.h"

namespace coldframe::preprocess {

// The smallest rectangle around the parts that are both lit (brighter than near-black in any of the
// frames) and large; where the frames differ, around those in which something moves, so that text
// that stands still is left out. `images` are evenly spread frames of one exam and of one size, not
// empty. Deterministic; the whole frame where nothing is found that is worth keeping apart.
frames::Rect find_crop(std::span<const frames::Image> images);

inline constexpr int kCropSamples = 8;  // frames that are enough to look at

}  // namespace coldframe::preprocess
