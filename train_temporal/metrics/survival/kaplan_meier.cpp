#include "train_temporal/metrics/survival/kaplan_meier.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "train_temporal/metrics/intervals/bounds.h"

namespace coldframe::temporal {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// Counts what happens at one time.
struct Moment {
  double time = 0;
  std::size_t at_risk = 0, events = 0, censored = 0;
};

std::vector<Moment> moments_of(const Outcomes& outcomes) {
  std::vector<std::size_t> order(outcomes.time.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return outcomes.time[i]; });
  std::vector<Moment> moments;
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

ShareAt KaplanMeier::share_at(double when) const {
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
  for (const Moment& moment : moments_of(outcomes)) {
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
  for (const Moment& moment : moments_of(outcomes)) {
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

}  // namespace coldframe::temporal
