// Concordance: a risk ranks exams well that ranks them by the time of their event.
#pragma once

#include <span>

#include "train_temporal/metrics/metrics.h"
#include "train_temporal/metrics/survival/kaplan_meier.h"

namespace coldframe::temporal {

// Risks that differ by less count as equal, as in scikit-survival.
inline constexpr double kEqualRisks = 1e-8;

// The share of pairs in which the exam with the earlier event has the higher risk, equal risks
// counting half (Harrell et al. 1996). An event is compared with all that are followed longer, and
// with those that are censored at its time.
MetricValue harrell_c(const Outcomes& outcomes, std::span<const double> risk);
// The same with each pair weighted by 1 / G(t)², G being censoring_curve(), of events before `tau`
// (Uno et al. 2011): what it estimates does not depend on how exams are censored.
MetricValue uno_c(const Outcomes& outcomes, std::span<const double> risk, double tau);

}  // namespace coldframe::temporal
