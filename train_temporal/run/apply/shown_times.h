// Models that were shown times are told by these what the exams lack that they are applied to.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/run/apply/ensemble.h"

namespace coldframe::temporal {

// Counts exams of which no interval between frames is known, or not the start since the zero that
// the models were shown. Empty where the models see no times or
// nothing is missing; else a warning. DataError where all lack times, unless `without_times` says
// that this is known.
std::string check_times(Ensemble& ensemble, const SequenceReader& cache,
                        const std::vector<std::size_t>& exams, bool without_times);

}  // namespace coldframe::temporal
