#include "train_temporal/metrics/intervals/fold_scores.h"

namespace coldframe::temporal {
namespace {

void append(FoldScores& to, const FoldScores& from) {
  const auto add = [](auto& values, const auto& more) {
    values.insert(values.end(), more.begin(), more.end());
  };
  add(to.exams.predicted, from.exams.predicted);
  add(to.exams.label, from.exams.label);
  add(to.exams.decision, from.exams.decision);
  add(to.exams.number, from.exams.number);
  add(to.exams.frame, from.exams.frame);
  add(to.patient, from.patient);
}

}  // namespace

ScoredExams exams_at(const ScoredExams& from, std::span<const std::size_t> rows) {
  ScoredExams taken;
  const std::size_t width = taken.width = from.width;
  taken.scale = from.scale;
  taken.horizons = from.horizons;
  taken.per_frame = from.per_frame;
  for (std::size_t i : rows) {
    const auto row = from.predicted.begin() + static_cast<std::ptrdiff_t>(i * width);
    taken.predicted.insert(taken.predicted.end(), row, row + static_cast<std::ptrdiff_t>(width));
    taken.label.push_back(from.label[i]);
    taken.decision.push_back(from.decision[i]);
    if (!from.number.empty()) taken.number.push_back(from.number[i]);
    if (!from.frame.empty()) taken.frame.push_back(from.frame[i]);
  }
  return taken;
}

std::vector<FoldScores> pooled_by_repeat(std::span<const FoldScores> folds) {
  std::vector<FoldScores> pooled;
  for (const FoldScores& fold : folds) {
    if (pooled.empty() || pooled.back().repeat != fold.repeat)
      pooled.push_back({fold.repeat, fold.fold, fold.exams, fold.patient});
    else
      append(pooled.back(), fold);
  }
  return pooled;
}

}  // namespace coldframe::temporal
