// The held-out exams that the page of a report shows one by one.
#pragma once

#include "cache/store/pictures.h"
#include "train_temporal/run/results/results.h"

namespace coldframe::temporal {

// Sets `held_out` and `picture_note`: exams of the first repeat and the first target that have a
// label, with pictures of the largest errors first and of a sample of right answers between them.
// None where targets are of frames or times.
void show_held_out(const ModelPredictions& main, const Cohort& cohort, cache::Pictures& pictures,
                   TargetReport& report);

}  // namespace coldframe::temporal
