// The share that is without an event as time goes by, of exams of which some are censored: followed
// up to a time and no farther. Ties are as in scikit-survival: who is censored at the time of an
// event was still at risk.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

}  // namespace coldframe::temporal
