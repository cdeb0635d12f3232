#include "train_temporal/metrics/survival/survival_metrics.h"

#include "train_temporal/metrics/survival/concordance.h"

namespace coldframe::temporal {

Outcomes outcomes_of(const ScoredExams& exams) {
  return {exams.number, exams.label};
}

std::vector<double> risks_of(const ScoredExams& exams) {
  std::vector<double> risks;
  for (std::size_t i = 0; i < exams.size(); ++i) risks.push_back(exams.score(i, 0));
  return risks;
}

std::vector<double> survival_of(const ScoredExams& exams) {
  std::vector<double> survival;
  for (std::size_t i = 0; i < exams.size(); ++i)
    for (std::size_t h = 1; h < exams.classes; ++h) survival.push_back(exams.score(i, h));
  return survival;
}

MetricValue survival_metric(Metric metric, const ScoredExams& exams) {
  const Outcomes outcomes = outcomes_of(exams);
  if (metric == Metric::kHarrellC) return harrell_c(outcomes, risks_of(exams));
  if (metric == Metric::kUnoC) return uno_c(outcomes, risks_of(exams), exams.horizons.back());
  const std::vector<double> survival = survival_of(exams);
  const PredictedSurvival predicted{exams.horizons, survival};
  return metric == Metric::kTimeAuroc ? mean_auroc(outcomes, predicted)
                                      : integrated_brier(outcomes, predicted);
}

ScoredExams at_horizon(const ScoredExams& exams, std::size_t horizon) {
  ScoredExams one = exams;
  one.classes = 2;
  one.horizons = {exams.horizons[horizon]};
  one.probability.clear();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const double both[] = {exams.score(i, 0), exams.score(i, 1 + horizon)};
    one.probability.insert(one.probability.end(), std::begin(both), std::end(both));
  }
  return one;
}

}  // namespace coldframe::temporal
