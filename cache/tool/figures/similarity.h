// Shows how the frames of one exam resemble each other.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cache/read/cosine.h"

namespace coldframe::cache::tool {

// Rows of `features` are the frames, [T, dimension]; a missing frame is a row of NaN.

// [T] cosine of each frame with the one before it that is present; NaN for the first frame and for
// missing ones.
std::vector<double> cosine_to_previous(std::span<const float> features, std::size_t dimension);

// [D] mean of the present rows; NaN if there are none.
std::vector<float> mean_row(std::span<const float> features, std::size_t dimension);

// One character out of ▁▂▃▄▅▆▇█ per value, the lowest of the finite ones first; a space for others.
std::string sparkline(const std::vector<double>& values);

}  // namespace coldframe::cache::tool
