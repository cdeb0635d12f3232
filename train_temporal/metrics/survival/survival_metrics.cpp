#include "train_temporal/metrics/survival/survival_metrics.h"

#include "train_temporal/metrics/metric_input.h"
#include "train_temporal/metrics/metric_table.h"
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
    for (std::size_t h = 1; h < exams.width; ++h) survival.push_back(exams.score(i, h));
  return survival;
}

ScoredExams at_horizon(const ScoredExams& exams, std::size_t horizon) {
  ScoredExams one = exams;
  one.width = 2;
  one.horizons = {exams.horizons[horizon]};
  one.predicted.clear();
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const double both[] = {exams.score(i, 0), exams.score(i, 1 + horizon)};
    one.predicted.insert(one.predicted.end(), std::begin(both), std::end(both));
  }
  return one;
}

namespace {

template <MetricValue (*kStatistic)(const Outcomes&, const PredictedSurvival&)>
MetricValue over_horizons(const MetricInput& in) {
  return kStatistic(outcomes_of(in.exams), {in.exams.horizons, survival_of(in.exams)});
}

constexpr MetricRow kTimeMetrics[] = {
    {.key = "harrell_c",
     .title = "Harrell's C",
     .labels = kTimeLabels,
     .compute =
         [](const MetricInput& in) { return harrell_c(outcomes_of(in.exams), risks_of(in.exams)); },
     .shape = Shape::kShare,
     .units = Units::kEvents,
     .chance = 0.5,
     .over_folds = true,
     .compared = true},
    {.key = "uno_c",  // pairs count up to the last horizon
     .title = "Uno's C",
     .labels = kTimeLabels,
     .compute =
         [](const MetricInput& in) {
           return uno_c(outcomes_of(in.exams), risks_of(in.exams), in.exams.horizons.back());
         },
     .shape = Shape::kShare,
     .units = Units::kEvents,
     .chance = 0.5,
     .over_folds = true,
     .compared = true},
    {.key = "time_auroc",  // mean over the horizons
     .title = "AUROC over time",
     .labels = kTimeLabels,
     .compute = over_horizons<mean_auroc>,
     .shape = Shape::kShare,
     .units = Units::kEvents,
     .chance = 0.5,
     .over_folds = true},
    {.key = "integrated_brier",  // over the horizons
     .title = "Integrated Brier",
     .labels = kTimeLabels,
     .compute = over_horizons<integrated_brier>,
     .shape = Shape::kPositive,
     .units = Units::kPatients,
     .least_units = 10,
     .compared = true},
};

}  // namespace

std::span<const MetricRow> time_metrics() {
  return kTimeMetrics;
}

}  // namespace coldframe::temporal
