// The held-out exams whose frames the report shows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train_temporal/cohort.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/results.h"

namespace coldframe::temporal {

// Of the first repeat the surest right decision and the surest wrong one for each of the first
// classes, explained by those models in the folder `run` that did not see the exam. The dataset
// must hold the exams. Empty where the first target cannot be explained.
FrameReport explain_examples(const ModelFolds& main, const Cohort& cohort, const Dataset& dataset,
                             const std::filesystem::path& run);

}  // namespace coldframe::temporal
