#include "train_temporal/metrics/survival/concordance.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace coldframe::temporal {
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

}  // namespace coldframe::temporal
