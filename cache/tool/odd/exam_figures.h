// The figures of one exam's features by which it may be odd.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "cache/format/exam.h"

namespace coldframe::cache::tool {

struct ExamFigures {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double norm = kUnknown;  // the median of its frames
  // The frame whose norm differs most from that median, and by which factor, at least 1.
  double norm_factor = kUnknown;
  std::size_t norm_frame = 0;
  // The frame that is least like the mean of the others, and 1 − their cosine; of three or more.
  double strangeness = kUnknown;
  std::size_t strange_frame = 0;
  std::vector<std::size_t> zero;      // frames that are there
  std::vector<std::size_t> repeated;  // frames that are equal to an earlier one, zeros apart
};

// `features`: [T, dimension], rows of missing frames are NaN.
ExamFigures figures_of(const ExamInfo& exam, std::span<const float> features,
                       std::size_t dimension);

}  // namespace coldframe::cache::tool
