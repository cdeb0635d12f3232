// The held-out exams of a fold, and ways to take some of them or more of them together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/metrics/metrics.h"

namespace coldframe::temporal {

// The held-out exams of one fold. Probabilities of several seeds are averaged before: seeds are not
// samples.
struct FoldScores {
  std::size_t repeat = 0, fold = 0;
  ScoredExams exams;
  std::vector<std::size_t> patient;  // [N] any numbering that is the same in all folds and models
  // The patients whose exams the fold holds out, with or without a label. Empty: `patient`.
  std::vector<std::size_t> drawn_from = {};

  const std::vector<std::size_t>& held_out() const {
    return drawn_from.empty() ? patient : drawn_from;
  }
};

// The exams at `rows`, in that order, each as often as it is named.
ScoredExams exams_at(const ScoredExams& from, std::span<const std::size_t> rows);

// The exams of all folds together, one part for each repeat.
std::vector<FoldScores> pooled_by_repeat(std::span<const FoldScores> folds);

}  // namespace coldframe::temporal
