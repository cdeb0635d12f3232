#include "train_temporal/metrics/survival/horizons.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "train_temporal/metrics/survival/concordance.h"

namespace coldframe::temporal {
namespace {

std::vector<std::size_t> ascending(std::span<const double> score) {
  std::vector<std::size_t> order(score.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return score[i]; });
  return order;
}

// The area below the ROC curve of weighted cases: the mean over them of the share of controls that
// score lower, those of a score equal to their neighbours' counting half. Weights are summed in one
// order above and below the line, so that it is exactly 0, 0.5 or 1 where every case's share is.
double weighted_area(std::span<const double> score, std::span<const double> cases,
                     std::span<const double> controls) {
  const std::vector<std::size_t> order = ascending(score);
  const double all = std::accumulate(controls.begin(), controls.end(), 0.0);
  double area = 0, weights = 0, lower = 0;
  for (std::size_t first = 0, behind = 0; first < order.size(); first = behind) {
    double equal = 0;
    do equal += controls[order[behind++]];
    while (behind < order.size() && score[order[behind]] - score[order[behind - 1]] <= kEqualRisks);
    for (std::size_t k = first; k < behind; ++k) {
      area += cases[order[k]] * ((lower + equal / 2) / all);
      weights += cases[order[k]];
    }
    lower += equal;
  }
  return area / weights;
}

std::string nobody_beyond() {
  return "no exam is followed beyond the horizon";
}

}  // namespace

MetricValue auroc_at(const Outcomes& outcomes, std::span<const double> score, double horizon) {
  const KaplanMeier followed = censoring_curve(outcomes);
  std::vector<double> cases(score.size(), 0.0), controls(score.size(), 0.0);
  for (std::size_t i = 0; i < score.size(); ++i) {
    controls[i] = outcomes.time[i] > horizon;
    if (outcomes.event[i] == 0 || outcomes.time[i] > horizon) continue;
    const double share = followed.at(outcomes.time[i]);
    if (share == 0) return MetricValue::none("all are censored at the time of an event");
    cases[i] = 1 / share;
  }
  const auto any = [](const std::vector<double>& weights) {
    return std::ranges::any_of(weights, [](double weight) { return weight > 0; });
  };
  if (!any(cases)) return MetricValue::none("no event up to the horizon");
  if (!any(controls)) return MetricValue::none(nobody_beyond());
  return MetricValue::of(weighted_area(score, cases, controls));
}

MetricValue brier_at(const Outcomes& outcomes, std::span<const double> survival, double horizon) {
  const KaplanMeier followed = censoring_curve(outcomes);
  if (followed.time.empty() || horizon >= followed.time.back())
    return MetricValue::none(nobody_beyond());
  const double share_beyond = followed.at(horizon);
  double sum = 0;
  for (std::size_t i = 0; i < survival.size(); ++i) {
    const bool beyond = outcomes.time[i] > horizon;
    if (!beyond && outcomes.event[i] == 0) continue;
    const double share = beyond ? share_beyond : followed.at(outcomes.time[i]);
    const double error = beyond ? 1 - survival[i] : survival[i];
    if (share > 0) sum += error * error / share;
  }
  return MetricValue::of(sum / static_cast<double>(survival.size()));
}

std::vector<double> PredictedSurvival::at(std::size_t horizon) const {
  std::vector<double> column;
  for (std::size_t i = horizon; i < survival.size(); i += horizons.size())
    column.push_back(survival[i]);
  return column;
}

MetricValue mean_auroc(const Outcomes& outcomes, const PredictedSurvival& predicted) {
  const KaplanMeier observed = survival_curve(outcomes);
  double sum = 0, weights = 0, before = 1;
  for (std::size_t h = 0; h < predicted.horizons.size(); ++h) {
    std::vector<double> risk = predicted.at(h);
    for (double& each : risk) each = 1 - each;
    const MetricValue one = auroc_at(outcomes, risk, predicted.horizons[h]);
    if (!one.defined() || predicted.horizons.size() == 1) return one;
    const double survival = observed.at(predicted.horizons[h]);
    sum += one.value * (before - survival);
    weights += before - survival;
    before = survival;
  }
  return MetricValue::of(sum / weights);
}

MetricValue integrated_brier(const Outcomes& outcomes, const PredictedSurvival& predicted) {
  const auto& horizons = predicted.horizons;
  double area = 0, before = 0;
  for (std::size_t h = 0; h < horizons.size(); ++h) {
    const MetricValue one = brier_at(outcomes, predicted.at(h), horizons[h]);
    if (!one.defined() || horizons.size() == 1) return one;
    if (h > 0) area += (horizons[h] - horizons[h - 1]) * (before + one.value) / 2;
    before = one.value;
  }
  return MetricValue::of(area / (horizons.back() - horizons.front()));
}

std::vector<std::size_t> groups_by(std::span<const double> score, std::size_t groups) {
  const std::vector<std::size_t> order = ascending(score);
  std::vector<std::size_t> group(score.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const bool tied = rank > 0 && score[order[rank]] - score[order[rank - 1]] <= kEqualRisks;
    group[order[rank]] = tied ? group[order[rank - 1]] : rank * groups / order.size();
  }
  return group;
}

std::vector<SurvivalGroup> calibration_at(const Outcomes& outcomes,
                                          std::span<const double> survival, double horizon,
                                          std::size_t groups, double level) {
  const std::vector<std::size_t> group = groups_by(survival, groups);
  std::vector<SurvivalGroup> result;
  for (std::size_t g = 0; g < groups; ++g) {
    SurvivalGroup one;
    std::vector<double> time;
    std::vector<int> event;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (group[i] != g) continue;
      one.predicted += survival[i];
      one.events += outcomes.event[i] != 0 && outcomes.time[i] <= horizon;
      time.push_back(outcomes.time[i]);
      event.push_back(outcomes.event[i]);
    }
    if (time.empty()) continue;
    one.exams = time.size();
    one.predicted /= static_cast<double>(one.exams);
    one.observed = survival_curve({time, event}, level).share_at(horizon);
    result.push_back(one);
  }
  return result;
}

}  // namespace coldframe::temporal
