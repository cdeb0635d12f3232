// Figures at a horizon say how well events up to it are told from exams that are without one beyond
// it, and how far the predicted share of them can be believed. Who is censored before counts
// through the others, each weighted by 1 / G of its time, with censoring_curve() of the same exams.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/metrics/metrics.h"
#include "train_temporal/metrics/survival/kaplan_meier.h"

namespace coldframe::temporal {

// The cumulative case / dynamic control AUROC (Uno et al. 2007; Hung and Chiang 2010).
MetricValue auroc_at(const Outcomes& outcomes, std::span<const double> score, double horizon);
// Mean squared error of `survival`, the predicted probability of no event up to the horizon (Graf
// et al. 1999).
MetricValue brier_at(const Outcomes& outcomes, std::span<const double> survival, double horizon);

// Survival at each of several ascending horizons, [n, H].
struct PredictedSurvival {
  std::span<const double> horizons;
  std::span<const double> survival;

  std::vector<double> at(std::size_t horizon) const;  // [n]
};
// The mean over horizons, each weighted by the share of events since the one before (Lambert and
// Chevret 2016).
MetricValue mean_auroc(const Outcomes& outcomes, const PredictedSurvival& predicted);
// The area below the Brier score over the horizons, by their range; at a single one the score
// there.
MetricValue integrated_brier(const Outcomes& outcomes, const PredictedSurvival& predicted);

// Exams of about equal predicted survival at a horizon.
struct SurvivalGroup {
  std::size_t exams = 0, events = 0;  // up to the horizon
  double predicted = 0;               // mean
  ShareAt observed;                   // of survival_curve()
};
std::vector<SurvivalGroup> calibration_at(const Outcomes& outcomes,
                                          std::span<const double> survival, double horizon,
                                          std::size_t groups, double level);

// The number of the group of each when they are divided by score into groups of about equal size,
// lowest first; equal ones stay together.
std::vector<std::size_t> groups_by(std::span<const double> score, std::size_t groups);

}  // namespace coldframe::temporal
