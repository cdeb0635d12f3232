#include "train_temporal/evaluate/survival.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "common/text/text.h"
#include "train_temporal/evaluate/bounds.h"
#include "train_temporal/evaluate/metric_rows.h"
#include "train_temporal/evaluate/metric_table.h"

namespace coldframe::temporal {

namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// Counts what happens at one time.
struct TimePoint {
  double time = 0;
  std::size_t at_risk = 0, events = 0, censored = 0;
};

std::vector<TimePoint> moments_of(const Outcomes& outcomes) {
  std::vector<std::size_t> order(outcomes.time.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return outcomes.time[i]; });
  std::vector<TimePoint> moments;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double time = outcomes.time[order[rank]];
    if (moments.empty() || moments.back().time != time)
      moments.push_back({time, order.size() - rank, 0, 0});
    ++(outcomes.event[order[rank]] != 0 ? moments.back().events : moments.back().censored);
  }
  return moments;
}

void add_interval(KaplanMeier& curve, double variance, double z) {
  const double survival = curve.survival.back();
  const double log_survival = survival > kEpsilon ? std::log(survival) : 0;
  const double theta = log_survival < -kEpsilon ? z * std::sqrt(variance) / log_survival : 0;
  const bool none_left = survival <= kEpsilon;
  curve.low.push_back(none_left ? 0 : std::exp(std::exp(-theta) * log_survival));
  curve.high.push_back(none_left ? 0 : std::exp(std::exp(theta) * log_survival));
}

// Solves a x = b for a symmetric, positive definite a [n, n]; empty where it is singular.
std::vector<double> solved(std::vector<double> a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    if (!(a[k * n + k] > kEpsilon)) return {};
    for (std::size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (std::size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      b[i] -= factor * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k * n + j] * b[j];
    b[k] /= a[k * n + k];
  }
  return b;
}

// Observed less expected events of each group, and their covariance.
struct Excess {
  std::vector<double> observed_less_expected, covariance;
};

Excess excess_of(const Outcomes& outcomes, std::span<const std::size_t> group, std::size_t groups) {
  std::vector<std::size_t> order(outcomes.time.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::greater{}, [&](std::size_t i) { return outcomes.time[i]; });
  Excess excess{std::vector<double>(groups), std::vector<double>(groups * groups)};
  std::vector<double> at_risk(groups);
  for (std::size_t k = 0; k < order.size();) {
    const double time = outcomes.time[order[k]];
    double events = 0;
    for (; k < order.size() && outcomes.time[order[k]] == time; ++k) {
      const std::size_t own = group[order[k]];
      at_risk[own] += 1;
      if (outcomes.event[order[k]] == 0) continue;
      excess.observed_less_expected[own] += 1;
      events += 1;
    }
    const auto all = static_cast<double>(k);
    const double factor = all > 1 ? events * (all - events) / (all * (all - 1)) : 0;
    for (std::size_t a = 0; a < groups; ++a) {
      excess.observed_less_expected[a] -= at_risk[a] * events / all;
      for (std::size_t b = 0; b < groups; ++b)
        excess.covariance[a * groups + b] +=
            factor * at_risk[a] * ((a == b ? 1 : 0) - at_risk[b] / all);
    }
  }
  return excess;
}

}  // namespace

std::size_t KaplanMeier::step_at(double when) const {
  const auto above = std::ranges::upper_bound(time, when);
  return above == time.begin() ? time.size() : static_cast<std::size_t>(above - time.begin()) - 1;
}

double KaplanMeier::at(double when) const {
  const std::size_t step = step_at(when);
  return step == time.size() ? 1 : survival[step];
}

SurvivalEstimate KaplanMeier::share_at(double when) const {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::size_t step = step_at(when);
  if (step == time.size()) return {};
  if (when > time.back() && survival.back() > kEpsilon) return {kNan, kNan, kNan};
  return {survival[step], low[step], high[step]};
}

KaplanMeier survival_curve(const Outcomes& outcomes, double level) {
  const double z = normal_quantile((1 + level) / 2);
  KaplanMeier curve;
  double survival = 1, variance = 0;
  for (const TimePoint& moment : moments_of(outcomes)) {
    const auto n = static_cast<double>(moment.at_risk), d = static_cast<double>(moment.events);
    survival *= 1 - d / n;
    if (d < n) variance += d / (n * (n - d));
    curve.time.push_back(moment.time);
    curve.survival.push_back(survival);
    curve.at_risk.push_back(moment.at_risk);
    add_interval(curve, variance, z);
  }
  return curve;
}

KaplanMeier censoring_curve(const Outcomes& outcomes) {
  KaplanMeier curve;
  double survival = 1;
  for (const TimePoint& moment : moments_of(outcomes)) {
    const std::size_t at_risk = moment.at_risk - moment.events;
    if (moment.censored > 0)
      survival *= 1 - static_cast<double>(moment.censored) / static_cast<double>(at_risk);
    curve.time.push_back(moment.time);
    curve.survival.push_back(survival);
    curve.at_risk.push_back(at_risk);
  }
  return curve;
}

LogRank log_rank(const Outcomes& outcomes, std::span<const std::size_t> group, std::size_t groups) {
  std::vector<std::size_t> place(groups, groups);  // among those that have exams
  std::size_t found = 0;
  for (std::size_t own : group)
    if (place[own] == groups) place[own] = found++;
  if (found < 2) return {};
  std::vector<std::size_t> placed;
  for (std::size_t own : group) placed.push_back(place[own]);
  const Excess excess = excess_of(outcomes, placed, found);
  const std::size_t freedom = found - 1;  // the last group's excess follows from the others'
  std::vector<double> covariance, difference;
  for (std::size_t a = 0; a < freedom; ++a) {
    difference.push_back(excess.observed_less_expected[a]);
    for (std::size_t b = 0; b < freedom; ++b)
      covariance.push_back(excess.covariance[a * found + b]);
  }
  const std::vector<double> x = solved(covariance, difference);
  if (x.empty()) return {};
  const double statistic = std::inner_product(x.begin(), x.end(), difference.begin(), 0.0);
  const boost::math::chi_squared distribution(static_cast<double>(freedom));
  return {statistic, cdf(complement(distribution, std::max(statistic, 0.0))), freedom};
}

namespace {

// Counts numbers up to a rank, in log(n) each (Fenwick 1994).
class RankCounts {
 public:
  explicit RankCounts(std::size_t ranks) : sums_(ranks + 1, 0) {}
  void add(std::size_t rank) {
    for (std::size_t i = rank + 1; i < sums_.size(); i += i & (~i + 1)) ++sums_[i];
  }
  double below(std::size_t rank) const {
    std::size_t sum = 0;
    for (std::size_t i = rank; i > 0; i -= i & (~i + 1)) sum += sums_[i];
    return static_cast<double>(sum);
  }

 private:
  std::vector<std::size_t> sums_;
};

// Places each risk among all in ascending order, and between those that are equal to it.
struct Ranks {
  std::vector<std::size_t> own, first_equal, behind_equal;
};

Ranks ranks_of(std::span<const double> risk) {
  std::vector<std::size_t> order(risk.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return risk[i]; });
  Ranks ranks;
  ranks.own.resize(risk.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) ranks.own[order[rank]] = rank;
  for (const double own : risk) {
    const auto first = std::ranges::partition_point(
        order, [&](std::size_t i) { return own - risk[i] > kEqualRisks; });
    const auto behind = std::ranges::partition_point(
        order, [&](std::size_t i) { return risk[i] - own <= kEqualRisks; });
    ranks.first_equal.push_back(static_cast<std::size_t>(first - order.begin()));
    ranks.behind_equal.push_back(static_cast<std::size_t>(behind - order.begin()));
  }
  return ranks;
}

// `weight` [n]: of the pairs of each event.
MetricValue concordance(const Outcomes& outcomes, std::span<const double> risk,
                        std::span<const double> weight) {
  std::vector<std::size_t> order(risk.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The latest first, and of one time the censored first: all that an event is compared with is in
  // `followed` when it comes.
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return outcomes.time[a] != outcomes.time[b] ? outcomes.time[a] > outcomes.time[b]
                                                : outcomes.event[a] < outcomes.event[b];
  });
  const Ranks ranks = ranks_of(risk);
  RankCounts followed(risk.size());
  double concordant = 0, pairs = 0;
  for (std::size_t k = 0, added = 0; k < order.size(); ++k) {
    const std::size_t exam = order[k];
    const bool event = outcomes.event[exam] != 0;
    const bool new_time = k == 0 || outcomes.time[exam] != outcomes.time[order[k - 1]] ||
                          outcomes.event[exam] != outcomes.event[order[k - 1]];
    if (!event || new_time)
      while (added < k) followed.add(ranks.own[order[added++]]);
    if (!event) continue;
    const double lower = followed.below(ranks.first_equal[exam]);
    const double equal = followed.below(ranks.behind_equal[exam]) - lower;
    concordant += weight[exam] * (lower + 0.5 * equal);
    pairs += weight[exam] * static_cast<double>(added);
  }
  if (pairs == 0) return MetricValue::none("no exam is followed beyond the event of another");
  return MetricValue::of(concordant / pairs);
}

}  // namespace

MetricValue harrell_c(const Outcomes& outcomes, std::span<const double> risk) {
  return concordance(outcomes, risk, std::vector<double>(risk.size(), 1.0));
}

MetricValue uno_c(const Outcomes& outcomes, std::span<const double> risk, double tau) {
  const KaplanMeier followed = censoring_curve(outcomes);
  std::vector<double> weight(risk.size(), 0.0);
  for (std::size_t i = 0; i < risk.size(); ++i) {
    if (outcomes.event[i] == 0 || outcomes.time[i] >= tau) continue;
    const double share = followed.at(outcomes.time[i]);
    if (share == 0) return MetricValue::none("all are censored at the time of the last event");
    weight[i] = 1 / (share * share);
  }
  return concordance(outcomes, risk, weight);
}

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
     .min_units = 10,
     .compared = true},
};

}  // namespace

std::span<const MetricRow> time_metrics() {
  return kTimeMetrics;
}

namespace {

constexpr std::size_t kRiskGroups = 3, kMaxCalibrationGroups = 5, kExamsPerGroup = 10;
constexpr std::size_t kMinDivided = 9;  // exams of a held-out part
constexpr const char* kRiskNames[kRiskGroups] = {"lowest third of risk", "middle third",
                                                 "highest third"};

HorizonFigures figures_at(std::vector<FoldScores> folds, double level, std::size_t horizon) {
  const Metric metrics[] = {metric_named("time_auroc"), metric_named("integrated_brier")};
  for (FoldScores& fold : folds) fold.exams = at_horizon(fold.exams, horizon);
  const auto summaries = summarize(leave_out_patients(folds, level, metrics));
  const ScoredExams all = pooled_by_repeat(folds).front().exams;
  const std::size_t groups =
      std::clamp<std::size_t>(all.size() / kExamsPerGroup, 1, kMaxCalibrationGroups);
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
    if (fold.exams.size() < kMinDivided)
      undivided = concat("a held-out part has fewer than ", kMinDivided, " ", rows);
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
