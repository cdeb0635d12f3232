#include "train_temporal/tasks/survival.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "train_temporal/tasks/logistic.h"

namespace coldframe::temporal {
namespace {

// The exams with one time; sums are over all that are followed as long or longer.
struct RiskSet {
  double time = 0;
  std::size_t first = 0, behind = 0;  // places in the order
  double events = 0, of_events = 0;   // how many, and the sum of their exp(z)
  double at_risk = 0;                 // the sum of exp(z)
};

struct RiskSets {
  std::vector<std::size_t> order;  // of exams, the latest time first
  std::vector<double> weight;      // exp(z − shift), [n]
  double shift = 0;
  std::vector<RiskSet> sets;  // the latest first
};

RiskSets risk_sets(std::span<const double> z, std::span<const double> label) {
  RiskSets all;
  all.order.resize(z.size());
  std::iota(all.order.begin(), all.order.end(), std::size_t{0});
  std::ranges::stable_sort(all.order, std::greater{},
                           [&](std::size_t i) { return time_of(label[i]); });
  if (!z.empty()) all.shift = *std::ranges::max_element(z);
  for (const double each : z) all.weight.push_back(std::exp(each - all.shift));
  double at_risk = 0;
  for (std::size_t k = 0; k < all.order.size(); ++k) {
    const std::size_t exam = all.order[k];
    const double time = time_of(label[exam]);
    if (all.sets.empty() || all.sets.back().time != time) all.sets.push_back({time, k, k});
    RiskSet& set = all.sets.back();
    set.behind = k + 1;
    set.at_risk = at_risk += all.weight[exam];
    if (!has_event(label[exam])) continue;
    set.events += 1;
    set.of_events += all.weight[exam];
  }
  return all;
}

// Efron: of d events at a time each leaves the risk set by a share l / d before the next one.
struct EfronSums {
  double logarithms = 0, inverses = 0, shares = 0;
};

EfronSums efron_sums(const RiskSet& set) {
  EfronSums sums;
  for (double l = 0; l < set.events; ++l) {
    const double left = set.at_risk - l / set.events * set.of_events;
    sums.logarithms += std::log(left);
    sums.inverses += 1 / left;
    sums.shares += l / set.events / left;
  }
  return sums;
}

double lower_end(const Readout& reading, std::size_t interval) {
  return interval > 0 ? reading.times[interval - 1] : 0;
}

// Calls body(interval, had an event) for each interval that tells something of the exam.
template <class Body>
void for_intervals(double label, const Readout& reading, Body body) {
  const double time = time_of(label);
  for (std::size_t j = 0; j < reading.times.size(); ++j) {
    const double upper = reading.times[j];
    const bool survives =
        has_event(label) ? time > upper : 2 * time >= lower_end(reading, j) + upper;
    if (survives) {
      body(j, false);
      continue;
    }
    if (has_event(label)) body(j, true);
    return;
  }
}

// Gives the share of an interval that lies before the horizon.
double share_before(const Readout& reading, std::size_t interval, double horizon) {
  const double lower = lower_end(reading, interval), upper = reading.times[interval];
  if (horizon >= upper) return 1;
  return std::max((horizon - lower) / (upper - lower), 0.0);
}

}  // namespace

CoxLoss cox_loss(std::span<const double> z, std::span<const double> label) {
  const RiskSets all = risk_sets(z, label);
  CoxLoss result{std::vector<double>(z.size()), std::vector<double>(z.size())};
  double inverses = 0;  // of all events up to the time
  for (std::size_t s = all.sets.size(); s-- > 0;) {
    const RiskSet& set = all.sets[s];
    const EfronSums sums = efron_sums(set);
    inverses += sums.inverses;
    for (std::size_t k = set.first; k < set.behind; ++k) {
      const std::size_t exam = all.order[k];
      result.gradient[exam] = all.weight[exam] * inverses;
      if (!has_event(label[exam])) continue;
      result.gradient[exam] -= all.weight[exam] * sums.shares + 1;
      result.loss[exam] = sums.logarithms / set.events + all.shift - z[exam];
    }
  }
  return result;
}

bool has_comparable_pair(std::span<const double> label) {
  double first_event = std::numeric_limits<double>::infinity();
  for (const double each : label)
    if (has_event(each)) first_event = std::min(first_event, time_of(each));
  return std::ranges::any_of(label, [&](double each) {
    return time_of(each) > first_event || (time_of(each) == first_event && !has_event(each));
  });
}

void fit_baseline(Readout& reading, std::span<const double> z, std::span<const double> label) {
  reading.times.clear();
  reading.hazards.clear();
  if (z.empty()) return;
  reading.mean = -std::accumulate(z.begin(), z.end(), 0.0) / static_cast<double>(z.size());
  const RiskSets all = risk_sets(z, label);
  const double unit = std::exp(all.shift + reading.mean);  // weights are of exp(z − shift)
  double hazard = 0;
  for (std::size_t s = all.sets.size(); s-- > 0;) {
    const RiskSet& set = all.sets[s];
    if (set.events == 0) continue;
    hazard += set.events / (set.at_risk * unit);
    reading.times.push_back(set.time);
    reading.hazards.push_back(hazard);
  }
}

namespace {

// Halves the longest interval.
void add_end(std::vector<double>& ends) {
  std::size_t longest = 0;
  const auto length = [&](std::size_t j) { return ends[j] - (j > 0 ? ends[j - 1] : 0); };
  for (std::size_t j = 1; j < ends.size(); ++j)
    if (length(j) > length(longest)) longest = j;
  ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest),
              ends[longest] - length(longest) / 2);
}

// Quantiles of the times, none twice.
std::vector<double> interval_ends(std::vector<double> times, std::size_t intervals) {
  std::ranges::sort(times);
  if (times.empty()) times.push_back(1);
  std::vector<double> different = times, ends;
  different.erase(std::unique(different.begin(), different.end()), different.end());
  while (different.size() < intervals) add_end(different);
  std::size_t next = 0;
  for (std::size_t j = 1; j <= intervals; ++j) {
    const double quantile = times[(j * times.size() + intervals - 1) / intervals - 1];
    const auto place = std::ranges::lower_bound(different, quantile) - different.begin();
    next = std::clamp(static_cast<std::size_t>(place), next, different.size() - 1 - intervals + j);
    ends.push_back(different[next++]);
  }
  return ends;
}

}  // namespace

void set_intervals(Readout& reading, std::span<const double> label, std::size_t intervals) {
  std::vector<double> times;
  for (const double each : label)
    if (has_event(each)) times.push_back(time_of(each));
  reading.times = interval_ends(std::move(times), intervals);
  std::vector<double> reached(intervals, 0.0), events(intervals, 0.0);
  for (const double each : label) {
    for_intervals(each, reading, [&](std::size_t j, bool event) {
      reached[j] += 1;
      events[j] += event;
    });
  }
  const double all = std::accumulate(events.begin(), events.end(), 0.5);  // no share is 0 or 1
  const double rate = all / std::accumulate(reached.begin(), reached.end(), 1.0);
  reading.hazards.clear();
  for (std::size_t j = 0; j < intervals; ++j)
    reading.hazards.push_back(
        std::log((events[j] + 0.5 * rate) / (reached[j] - events[j] + 0.5 * (1 - rate))));
}

double hazards_loss(std::span<const double> z, double label, const Readout& reading, double total,
                    float* gradient) {
  double loss = 0;
  if (gradient != nullptr) std::fill_n(gradient, z.size(), 0.0f);
  for_intervals(label, reading, [&](std::size_t j, bool event) {
    const double logit = z[j] + reading.hazards[j];
    loss += softplus(event ? -logit : logit);
    if (gradient != nullptr)
      gradient[j] = static_cast<float>((logistic(logit) - (event ? 1 : 0)) / total);
  });
  return loss;
}

std::vector<double> interval_labels(double label, const Readout& reading) {
  std::vector<double> labels(reading.times.size(), std::numeric_limits<double>::quiet_NaN());
  for_intervals(label, reading, [&](std::size_t j, bool event) { labels[j] = event; });
  return labels;
}

std::vector<double> baseline_at(const Target& target, const Readout& reading) {
  std::vector<double> hazards;
  for (const double horizon : target.horizons) {
    const auto steps = std::ranges::upper_bound(reading.times, horizon) - reading.times.begin();
    hazards.push_back(steps > 0 ? reading.hazards[static_cast<std::size_t>(steps) - 1] : 0);
  }
  return hazards;
}

std::vector<double> interval_shares(const Target& target, const Readout& reading) {
  const std::size_t intervals = reading.times.size();
  std::vector<double> shares;
  for (std::size_t j = 0; j < intervals; ++j)
    shares.push_back(static_cast<double>(intervals - j) / static_cast<double>(intervals));
  for (const double horizon : target.horizons)
    for (std::size_t j = 0; j < intervals; ++j) shares.push_back(share_before(reading, j, horizon));
  return shares;
}

namespace {

void add_cox_scores(std::vector<double>& scores, double risk, const std::vector<double>& baseline) {
  scores.push_back(risk);
  for (const double hazard : baseline)
    scores.push_back(hazard > 0 ? std::exp(-hazard * std::exp(risk)) : 1);
}

void add_hazard_scores(std::vector<double>& scores, std::span<const double> z,
                       const Readout& reading, const std::vector<double>& shares) {
  std::vector<double> hazards;
  for (std::size_t j = 0; j < z.size(); ++j) hazards.push_back(softplus(z[j] + reading.hazards[j]));
  for (std::size_t from = 0; from < shares.size(); from += z.size()) {
    const double sum = std::inner_product(hazards.begin(), hazards.end(), &shares[from], 0.0);
    scores.push_back(from == 0 ? sum : std::exp(-sum));
  }
}

}  // namespace

std::vector<double> survival_scores(const Target& target, const Readout& reading,
                                    std::span<const double> outputs) {
  const std::size_t width = target.outputs();
  const bool cox = target.task == Task::kCox;
  const std::vector<double> parts =
      cox ? baseline_at(target, reading) : interval_shares(target, reading);
  std::vector<double> scores;
  scores.reserve(outputs.size() / width * target.scores());
  for (std::size_t row = 0; row < outputs.size(); row += width) {
    if (cox)
      add_cox_scores(scores, reading.mean + reading.deviation * outputs[row], parts);
    else
      add_hazard_scores(scores, outputs.subspan(row, width), reading, parts);
  }
  return scores;
}

}  // namespace coldframe::temporal
