// Metrics of one exam's features by which it may be odd.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/reader.h"
#include "cache/tool/statistics.h"

namespace coldframe::cache::tool {

struct ExamMetrics {
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
ExamMetrics figures_of(const ExamInfo& exam, std::span<const float> features,
                       std::size_t dimension);

// Exams that are not like the others, with the reasons in words: what a person should look at
// first.

// The cache, and the figures that exams are compared by.
struct Examined {
  const CacheReader& cache;
  const std::vector<ExamMetrics>& figures;  // of each exam
  const ExamMeans& means;
  const NearestRows& nearest;  // of means
  std::string label;           // the column that neighbours should share; "": none
};

struct Oddities {
  // [exam] the sum over its reasons; 0: nothing is odd. A reason counts 1; a measured one counts
  // its number divided by the limit, at most 10.
  std::vector<double> oddness;
  std::vector<std::string> reasons;  // joined by "; "
  // The mean Euclidean distance between the mean features of the exam and of its nearest.
  std::vector<double> distance;
  std::vector<bool> outlier;  // by norm or distance
  // Sentences on what more than a tenth of all exams have, which are therefore not odd.
  std::vector<std::string> common;
};
Oddities find_oddities(const Examined& examined);

}  // namespace coldframe::cache::tool
