// Times to an event, of which some are censored: the labels, the losses of two models of them, and
// how their outputs become a risk and the probability of no event up to a horizon.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "train_temporal/tasks/loss.h"

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

// Cox: Readout::mean, times and hazards from a training part's outputs z [n]: Breslow's estimate of
// the cumulative hazard of an exam with the part's mean output. Its steps are the times of events.
void fit_baseline(Readout& readout, std::span<const double> z, std::span<const double> label);

inline constexpr std::size_t kIntervalLimit = 1000;  // of kHazards

// Hazards: `intervals` that end at quantiles of the times of events, (times[j − 1], times[j]], each
// later than the one before, and the logit of the share that has an event in each of those that
// reach it, drawn by half an exam towards that of all intervals. An output is added to it.
void set_intervals(Readout& readout, std::span<const double> label, std::size_t intervals);

// The negative log likelihood of an exam with discrete-time hazards σ(z + hazards), z [J]
// (Gensheimer and Narasimhan 2019); censored exams survive an interval of which they reach the
// middle. `gradient`, unless null: of the loss divided by `total`.
double hazards_loss(std::span<const double> z, double label, const Readout& readout, double total,
                    float* gradient);

// Of every interval 1 where the exam had an event in it, 0 where it survived it, NaN where it tells
// nothing, [J].
std::vector<double> interval_labels(double label, const Readout& readout);

// The scores of a time are the risk, then the probability of no event up to each of the target's
// horizons. The risk is Cox's logarithm of the relative hazard; of discrete-time hazards it is the
// mean over the intervals' ends of the cumulative hazard −log S, the mortality of Ishwaran et al.
// 2008. Within an interval log S falls evenly; Cox's falls at the times of events. Behind the last
// time S stays.
//
// These scores rest on, Cox: the cumulative baseline hazard at each horizon, [H]; hazards: the
// shares of the intervals' hazards −log(1 − σ) in the risk and in −log S at each horizon,
// [1 + H, J].
std::vector<double> baseline_at(const Target& target, const Readout& readout);
std::vector<double> interval_shares(const Target& target, const Readout& readout);

}  // namespace coldframe::temporal
