// A cohort in numbers, for the report.
#pragma once

#include <cstddef>
#include <vector>

#include "train_temporal/report/report.h"
#include "train_temporal/run/cohort/cohort.h"

namespace coldframe::temporal {

// Counts the exams with these indices as one target sees them, and on which way the others were
// left out.
DataOverview overview(const Cohort& cohort, std::size_t target,
                      const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
