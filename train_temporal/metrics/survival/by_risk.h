// What a model's risks say of the time to an event: figures at each horizon, and the survival of
// exams at different risk.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/metrics/intervals/intervals.h"
#include "train_temporal/metrics/survival/horizons.h"
#include "train_temporal/metrics/survival/kaplan_meier.h"

namespace coldframe::temporal {

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
