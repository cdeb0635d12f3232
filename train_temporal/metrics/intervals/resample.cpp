#include "train_temporal/metrics/intervals/resample.h"

#include <algorithm>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

std::size_t patient_count(std::span<const FoldScores> folds) {
  std::size_t count = 0;
  for (const FoldScores& fold : folds) {
    for (std::size_t patient : fold.held_out()) count = std::max(count, patient + 1);
  }
  return count;
}

// The patients of each fold of the first repeat; those seen in later repeats only are one more.
std::vector<std::vector<std::size_t>> strata_of(std::span<const FoldScores> folds) {
  std::vector<bool> seen(patient_count(folds), false);
  std::vector<std::vector<std::size_t>> strata;
  std::vector<std::size_t> late;
  for (const FoldScores& fold : folds) {
    const bool first_repeat = fold.repeat == folds.front().repeat;
    if (first_repeat) strata.emplace_back();
    for (std::size_t patient : fold.held_out()) {
      if (seen[patient]) continue;
      seen[patient] = true;
      (first_repeat ? strata.back() : late).push_back(patient);
    }
  }
  strata.push_back(std::move(late));
  for (auto& stratum : strata) std::ranges::sort(stratum);
  return strata;
}

// The exams of `fold`, each as often as its patient was drawn.
ScoredExams drawn_exams(const FoldScores& fold, std::span<const std::uint32_t> drawn) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < fold.exams.size(); ++i)
    rows.insert(rows.end(), drawn[fold.patient[i]], i);
  return exams_at(fold.exams, rows);
}

}  // namespace

std::vector<std::uint32_t> draw_patients(const std::vector<std::vector<std::size_t>>& strata,
                                         std::size_t count, std::uint64_t seed,
                                         std::uint64_t resample) {
  std::vector<std::uint32_t> drawn(count, 0);
  for (std::size_t s = 0; s < strata.size(); ++s) {
    CounterRandom random({seed, resample, s});
    for (std::size_t i = 0; i < strata[s].size(); ++i) {
      ++drawn[strata[s][random.below(strata[s].size())]];
    }
  }
  return drawn;
}

std::vector<ScoredExams> resample_folds(std::span<const FoldScores> folds, std::uint64_t seed,
                                        std::uint64_t resample) {
  const auto drawn = draw_patients(strata_of(folds), patient_count(folds), seed, resample);
  std::vector<ScoredExams> result;
  for (const FoldScores& fold : folds) result.push_back(drawn_exams(fold, drawn));
  return result;
}

}  // namespace coldframe::temporal
