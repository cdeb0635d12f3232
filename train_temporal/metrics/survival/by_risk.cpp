#include "train_temporal/metrics/survival/by_risk.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/text/text.h"
#include "train_temporal/metrics/survival/survival_metrics.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kRiskGroups = 3, kMostCalibrationGroups = 5, kExamsPerGroup = 10;
constexpr std::size_t kLeastDivided = 9;  // exams of a held-out part
constexpr const char* kRiskNames[kRiskGroups] = {"lowest third of risk", "middle third",
                                                 "highest third"};

HorizonFigures figures_at(std::vector<FoldScores> folds, double level, std::size_t horizon) {
  const Metric metrics[] = {metric_named("time_auroc"), metric_named("integrated_brier")};
  for (FoldScores& fold : folds) fold.exams = at_horizon(fold.exams, horizon);
  const auto summaries = summarize(leave_out_patients(folds, level, metrics));
  const ScoredExams all = pooled_by_repeat(folds).front().exams;
  const std::size_t groups =
      std::clamp<std::size_t>(all.size() / kExamsPerGroup, 1, kMostCalibrationGroups);
  return {all.horizons.front(), summaries[0], summaries[1],
          calibration_at(outcomes_of(all), survival_of(all), all.horizons.front(), groups, level)};
}

std::vector<FoldScores> first_repeat(std::vector<FoldScores> folds) {
  std::erase_if(folds, [&, first = folds.front().repeat](const FoldScores& fold) {
    return fold.repeat != first || fold.exams.size() == 0;
  });
  return folds;
}

// The third of each exam, in the order of the folds: risks of one fold come from one model. All are
// of the first where a fold has too few of them, or too few different ones.
std::vector<std::size_t> thirds_of(const std::vector<FoldScores>& folds, const std::string& rows,
                                   std::string& undivided) {
  std::vector<std::size_t> all;
  for (const FoldScores& fold : folds) {
    const auto groups = groups_by(risks_of(fold.exams), kRiskGroups);
    const std::set<std::size_t> found(groups.begin(), groups.end());
    if (fold.exams.size() < kLeastDivided)
      undivided = concat("a held-out part has fewer than ", kLeastDivided, " ", rows);
    else if (found.size() < kRiskGroups)
      undivided = concat("too many ", rows, " of a held-out part have one risk");
    all.insert(all.end(), groups.begin(), groups.end());
  }
  if (!undivided.empty()) std::ranges::fill(all, 0);
  return all;
}

void divide_by_risk(SurvivalFigures& figures, const std::vector<FoldScores>& folds, double level,
                    const std::string& rows) {
  if (folds.empty()) return;
  const std::vector<std::size_t> group_of = thirds_of(folds, rows, figures.undivided);
  const ScoredExams exams = pooled_by_repeat(folds).front().exams;
  for (std::size_t g = 0; g < kRiskGroups; ++g) {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < group_of.size(); ++i)
      if (group_of[i] == g) own.push_back(i);
    if (own.empty()) continue;
    const ScoredExams one = exams_at(exams, own);
    figures.groups.push_back({figures.undivided.empty() ? kRiskNames[g] : "all", own.size(),
                              static_cast<std::size_t>(std::ranges::count(one.label, 1)),
                              survival_curve(outcomes_of(one), level)});
  }
  std::set<std::size_t> patients;
  for (const FoldScores& fold : folds) patients.insert(fold.patient.begin(), fold.patient.end());
  figures.untested = figures.undivided;
  if (patients.size() < group_of.size())
    figures.untested = concat(rows, " of a patient are not independent");
  if (figures.untested.empty()) figures.test = log_rank(outcomes_of(exams), group_of, kRiskGroups);
  if (figures.untested.empty() && figures.test.freedom == 0)
    figures.untested = "no event while several groups are followed";
}

}  // namespace

SurvivalFigures survival_figures(const std::vector<FoldScores>& folds, double level,
                                 const std::string& rows) {
  SurvivalFigures figures;
  const bool finite = std::ranges::all_of(folds, [](const FoldScores& fold) {
    return std::ranges::all_of(fold.exams.predicted, [](double p) { return std::isfinite(p); });
  });
  if (folds.empty() || !finite) return figures;
  for (std::size_t h = 0; h < folds.front().exams.horizons.size(); ++h)
    figures.horizons.push_back(figures_at(folds, level, h));
  divide_by_risk(figures, first_repeat(folds), level, rows);
  return figures;
}

}  // namespace coldframe::temporal
