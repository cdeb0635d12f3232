// Survival curves of censored exams, i.e. exams followed up to some time only. Ties are as in
// scikit-survival: an exam censored at an event time was still at risk.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

struct Outcomes {
  std::span<const double> time;  // [n] 0 or more
  std::span<const int> event;    // [n] 1: event; 0: censored
};

// NaN: undefined.
struct SurvivalEstimate {
  double value = 1, low = 1, high = 1;

  // Greenwood's variance is 0 if survival is 1 or 0.
  bool has_interval() const { return low < high; }
};

// A step function: 1 before the first time, then `survival` from each time on.
struct KaplanMeier {
  std::vector<double> time, survival;  // distinct times, ascending
  std::vector<double> low, high;       // of survival_curve() alone
  std::vector<std::size_t> at_risk;    // just before each time

  double at(double when) const;
  // For survival_curve(): value and interval; undefined if nobody without an event was followed up
  // to `when`.
  SurvivalEstimate share_at(double when) const;
  // Index of the last time at or before `when`; time.size(): none.
  std::size_t step_at(double when) const;
};

// Kaplan and Meier 1958, with intervals by Greenwood's variance on the scale of log(−log S)
// (Borgan and Liestøl 1990).
KaplanMeier survival_curve(const Outcomes& outcomes, double level = 0.95);
// The same for censoring: the fraction still followed. Always 1 if all have events.
KaplanMeier censoring_curve(const Outcomes& outcomes);

struct LogRank {
  double statistic = 0, p = 1;
  std::size_t freedom = 0;  // 0: nothing to compare
};
// Tests whether groups (indices below `groups`) differ (Mantel 1966); empty ones are left out.
LogRank log_rank(const Outcomes& outcomes, std::span<const std::size_t> group, std::size_t groups);

// Concordance: how well a risk ranks exams by event time.

// Risks that differ by less are ties, as in scikit-survival.
inline constexpr double kEqualRisks = 1e-8;

// The fraction of pairs in which the exam with the earlier event has the higher risk; ties count
// half (Harrell et al. 1996). An event is compared with all exams that are followed longer, and
// with those censored at its time.
MetricValue harrell_c(const Outcomes& outcomes, std::span<const double> risk);
// The same for events before `tau`, with each pair weighted by 1 / G(t)², where G is
// censoring_curve() (Uno et al. 2011): its estimand does not depend on the censoring.
MetricValue uno_c(const Outcomes& outcomes, std::span<const double> risk, double tau);

// Metrics at a horizon: discrimination between exams with an event up to it and those without one
// beyond it, and calibration of the predicted survival. Exams censored before are accounted for by
// inverse-probability weights 1 / G of the others, with censoring_curve() of the same exams.

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
// The mean over horizons, weighted by the fraction of events since the previous horizon (Lambert
// and Chevret 2016).
MetricValue mean_auroc(const Outcomes& outcomes, const PredictedSurvival& predicted);
// The area under the Brier score over the horizons, divided by their range; for a single horizon,
// its score.
MetricValue integrated_brier(const Outcomes& outcomes, const PredictedSurvival& predicted);

// Exams with similar predicted survival at a horizon.
struct SurvivalGroup {
  std::size_t exams = 0, events = 0;  // up to the horizon
  double predicted = 0;               // mean
  SurvivalEstimate observed;          // of survival_curve()
};
std::vector<SurvivalGroup> calibration_at(const Outcomes& outcomes,
                                          std::span<const double> survival, double horizon,
                                          std::size_t groups, double level);

// Divides exams by score into groups of about equal size, lowest first; returns each one's group
// index. Equal scores stay together.
std::vector<std::size_t> groups_by(std::span<const double> score, std::size_t groups);

// Time-to-event metrics for the exams of a fold or of all folds.

Outcomes outcomes_of(const ScoredExams& exams);
std::vector<double> risks_of(const ScoredExams& exams);
std::vector<double> survival_of(const ScoredExams& exams);  // [N, horizons]

// The same exams with a single horizon, so that metrics over horizons apply to it.
ScoredExams at_horizon(const ScoredExams& exams, std::size_t horizon);

// Evaluation of a model's risks: metrics at each horizon, and survival curves by risk group.

struct HorizonFigures {
  double horizon = 0;
  MetricSummary auroc, brier;
  std::vector<SurvivalGroup> groups;
};
struct RiskGroup {
  std::string name;
  std::size_t exams = 0, events = 0;
  KaplanMeier curve;
};
struct SurvivalFigures {
  std::vector<HorizonFigures> horizons;
  std::vector<RiskGroup> groups;
  LogRank test;
  std::string undivided, untested;  // why, or empty
};

// `folds`: the held-out exams of a model. The first repeat is divided into thirds by risk, or forms
// one group if held-out parts cannot be divided. `rows`: the word for exams in `undivided` and
// `untested`. Empty if a prediction is NaN.
SurvivalFigures survival_figures(const std::vector<FoldScores>& folds, double level,
                                 const std::string& rows);

}  // namespace coldframe::temporal
