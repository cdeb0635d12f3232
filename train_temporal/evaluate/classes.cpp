#include "train_temporal/evaluate/classes.h"

#include <algorithm>
#include <set>
#include <utility>

namespace coldframe::temporal {

std::vector<FoldScores> against_the_rest(std::span<const FoldScores> folds, std::size_t of_class) {
  std::vector<FoldScores> result(folds.begin(), folds.end());
  for (FoldScores& fold : result) {
    const ScoredExams all = std::move(fold.exams);
    fold.exams = {};
    fold.exams.per_frame = all.per_frame;
    fold.exams.frame = all.frame;
    auto [score, positive] = one_vs_rest(all, of_class);
    for (const double p : score)
      fold.exams.predicted.insert(fold.exams.predicted.end(), {1 - p, p});
    fold.exams.label = std::move(positive);
    for (const int decision : all.decision)
      fold.exams.decision.push_back(decision == static_cast<int>(of_class));
  }
  return result;
}

namespace {

void count_exams(FiguresOfClass& figures, std::span<const FoldScores> folds) {
  const FoldScores all = pooled_by_repeat(folds).front();
  std::set<std::size_t> patients;
  for (std::size_t i = 0; i < all.exams.size(); ++i) {
    if (all.exams.label[i] != 1) continue;
    ++figures.exams;
    patients.insert(all.patient[i]);
  }
  figures.patients = patients.size();
}

}  // namespace

std::vector<FiguresOfClass> figures_of_classes(std::span<const FoldScores> folds,
                                               std::span<const MetricSummary> headline,
                                               double level) {
  std::vector<FiguresOfClass> result(folds.front().exams.label_count());
  for (std::size_t c = 0; c < result.size(); ++c) {
    const std::vector<FoldScores> own = against_the_rest(folds, c);
    count_exams(result[c], own);
    result[c].summary = summarize(leave_out_patients(own, level, metrics_of_one_class()));
    for (MetricSummary& figure : result[c].summary) {
      const auto all = std::ranges::find(headline, figure.metric, &MetricSummary::metric);
      if (all != headline.end()) figure.by_fold = figure.by_fold && all->by_fold;
    }
  }
  return result;
}

}  // namespace coldframe::temporal
