// Exams that are not like the others, with the reasons in words: what a person should look at
// first.
#pragma once

#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "cache/tool/figures/neighbours.h"
#include "cache/tool/odd/exam_figures.h"

namespace coldframe::cache::tool {

// The cache, and the figures that exams are compared by.
struct Examined {
  const CacheReader& cache;
  const std::vector<ExamFigures>& figures;  // of each exam
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
