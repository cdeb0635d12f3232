// The share that is without an event as time goes by, of exams of which some are censored: followed
// up to a time and no farther. Ties are as in scikit-survival: who is censored at the time of an
// event was still at risk.
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
  std::span<const int> event;    // [n] 1: the event came then; 0: censored then
};

// NaN: undefined.
struct ShareAt {
  double value = 1, low = 1, high = 1;

  // Greenwood's variance is 0 where all are without an event, or none is.
  bool has_interval() const { return low < high; }
};

// A step function: 1 before the first time, and from each time on its value.
struct KaplanMeier {
  std::vector<double> time, survival;  // each different time once, ascending
  std::vector<double> low, high;       // of survival_curve() alone
  std::vector<std::size_t> at_risk;    // just before each time

  double at(double when) const;
  // That of survival_curve(), with its interval: undefined where those who are left without an
  // event were followed up to an earlier time only.
  ShareAt share_at(double when) const;
  // The last time at or before `when`; time.size(): there is none.
  std::size_t step_at(double when) const;
};

// Kaplan and Meier 1958, with intervals by Greenwood's variance on the scale of log(−log S)
// (Borgan and Liestøl 1990).
KaplanMeier survival_curve(const Outcomes& outcomes, double level = 0.95);
// The same of being censored: the share that is still followed. 1 throughout where all have events.
KaplanMeier censoring_curve(const Outcomes& outcomes);

struct LogRank {
  double statistic = 0, p = 1;
  std::size_t freedom = 0;  // 0: nothing to compare
};
// Tests whether groups (numbers below `groups`) differ (Mantel 1966); empty ones are left out.
LogRank log_rank(const Outcomes& outcomes, std::span<const std::size_t> group, std::size_t groups);

// Concordance: a risk ranks exams well that ranks them by the time of their event.

// Risks that differ by less count as equal, as in scikit-survival.
inline constexpr double kEqualRisks = 1e-8;

// The share of pairs in which the exam with the earlier event has the higher risk, equal risks
// counting half (Harrell et al. 1996). An event is compared with all that are followed longer, and
// with those that are censored at its time.
MetricValue harrell_c(const Outcomes& outcomes, std::span<const double> risk);
// The same with each pair weighted by 1 / G(t)², G being censoring_curve(), of events before `tau`
// (Uno et al. 2011): what it estimates does not depend on how exams are censored.
MetricValue uno_c(const Outcomes& outcomes, std::span<const double> risk, double tau);

// Figures at a horizon say how well events up to it are told from exams that are without one beyond
// it, and how far the predicted share of them can be believed. Who is censored before counts
// through the others, each weighted by 1 / G of its time, with censoring_curve() of the same exams.

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

// The metrics of a time to event, of the exams of a fold or of all.

Outcomes outcomes_of(const ScoredExams& exams);
std::vector<double> risks_of(const ScoredExams& exams);
std::vector<double> survival_of(const ScoredExams& exams);  // [N, horizons]

// The same exams with one of their horizons alone: figures over horizons are then those there.
ScoredExams at_horizon(const ScoredExams& exams, std::size_t horizon);

// What a model's risks say of the time to an event: figures at each horizon, and the survival of
// exams at different risk.

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

// `folds`: the held-out exams of a model; of several repeats the first is divided into thirds of
// the risk, or into one group where held-out parts cannot be divided. `rows`: the word for
// exams in `undivided` and `untested`. Empty where a prediction is not a number.
SurvivalFigures survival_figures(const std::vector<FoldScores>& folds, double level,
                                 const std::string& rows);

}  // namespace coldframe::temporal
