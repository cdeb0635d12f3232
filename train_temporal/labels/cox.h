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

// The negative logarithm of Cox's partial likelihood (1972) of outputs z [n], with Efron's
// approximation (1977) where events share a time, divided among the exams that have them, [n]; and
// its gradient, [n]. All n are each other's risk sets.
BatchLoss cox_loss(std::span<const double> z, std::span<const double> label);
// True where that loss ranks: an event came before another exam's, or while another was followed.
bool has_comparable_pair(std::span<const double> label);

// Readout::mean, times and hazards from a training part's outputs z [n]: Breslow's estimate of
// the cumulative hazard of an exam with the part's mean output. Its steps are the times of events.
void fit_baseline(Readout& readout, std::span<const double> z, std::span<const double> label);

// The scores of a time are the risk, the logarithm of the relative hazard, then the probability of
// no event up to each of the target's horizons, which falls at the times of events and stays behind
// the last one. They rest on this, the cumulative baseline hazard at each horizon, [H].
std::vector<double> baseline_at(const Target& target, const Readout& readout);

}  // namespace coldframe::temporal
