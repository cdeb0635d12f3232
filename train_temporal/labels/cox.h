// Times to an event, of which some are censored: the labels, Cox's loss, and how its outputs become
// a risk and the probability of no event up to a horizon.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

// A label is one number, as in XGBoost's survival:cox: the time, with a minus sign where the exam
// was followed up to it without an event (−0 of time 0).
inline double survival_label(double time, bool event) {
  return event ? time : -time;
}
inline double time_of(double label) {
  return std::abs(label);
}
inline bool has_event(double label) {
  return !std::signbit(label);
}

// Cox's negative log partial likelihood (1972) of outputs z [n], with Efron's approximation (1977)
// for ties, as one term per exam with an event, [n]; and its gradient, [n]. The risk sets are
// formed from all n.
BatchLoss cox_loss(std::span<const double> z, std::span<const double> label);
// True if that loss can rank: an exam has an event before another exam's, or while another was
// followed up.
bool has_comparable_pair(std::span<const double> label);

// Sets Readout::mean, times and hazards from a training part's outputs z [n]: Breslow's estimate of
// the cumulative hazard at the mean output, a step function with a step at each event time.
void fit_baseline(Readout& readout, std::span<const double> z, std::span<const double> label);

// The cumulative baseline hazard at each horizon, [H], from which the scores of a time are
// computed: the risk (log relative hazard), then the probability of no event up to each of the
// target's horizons. That probability drops at event times and is constant after the last one.
std::vector<double> baseline_at(const Target& target, const Readout& readout);

}  // namespace coldframe::temporal
