// Bootstrap resamples of patients, for the bands around curves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {

struct BootstrapOptions {
  std::size_t resamples = 2000;
  std::uint64_t seed = 0;
  double level = 0.95;
};

// Counts how often each patient is drawn in one resample: count[p] for every patient number, given
// the patients of each stratum.
std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t patient_count, std::uint64_t seed,
                                         std::uint64_t resample);

// The folds with the exams of patients that are drawn with replacement within the folds of the
// first repeat; every repeat sees the same draw, as repeats are not new patients.
std::vector<ScoredExams> resample_folds(std::span<const FoldScores> folds, std::uint64_t seed,
                                        std::uint64_t resample);

}  // namespace coldframe::temporal
