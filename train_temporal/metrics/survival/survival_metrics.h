// The metrics of a time to event, of the exams of a fold or of all.
#pragma once

#include "train_temporal/metrics/metrics.h"
#include "train_temporal/metrics/survival/horizons.h"

namespace coldframe::temporal {

Outcomes outcomes_of(const ScoredExams& exams);
std::vector<double> risks_of(const ScoredExams& exams);
std::vector<double> survival_of(const ScoredExams& exams);  // [N, horizons]

// The same exams with one of their horizons alone: figures over horizons are then those there.
ScoredExams at_horizon(const ScoredExams& exams, std::size_t horizon);

}  // namespace coldframe::temporal
