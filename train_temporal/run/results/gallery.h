// The held-out exams that the page of a report shows one by one.
#pragma once

#include "cache/read/pictures.h"
#include "train_temporal/run/results/results.h"

namespace coldframe::temporal {

// Those of the first repeat and the first target that have a label, with pictures of the largest
// errors first. Empty where targets are of frames or times.
HeldOutExams held_out_exams(const ModelPredictions& main, const Cohort& cohort,
                            cache::Pictures& pictures);

}  // namespace coldframe::temporal
