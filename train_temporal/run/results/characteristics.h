// The table of a cohort's characteristics by class, Table 1 of a paper.
#pragma once

#include <vector>

#include "train_temporal/report/report.h"
#include "train_temporal/run/results/resolved_questions.h"

namespace coldframe::temporal {

// Exams and patients, frames, and of each column that was asked for: of numbers mean (SD) and
// median [quartiles], else the count and share of every value; and how many exams have none. Shares
// are of the exams that have a value. `used`: the exams, of which those without a label do not
// count.
std::vector<Characteristic> characteristics_of(const Cohort& cohort, std::size_t target,
                                               const std::vector<std::size_t>& used,
                                               const ResolvedQuestions& asked);

}  // namespace coldframe::temporal
