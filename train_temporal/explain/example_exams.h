// The held-out exams whose frames the report shows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cache/store/pictures.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/results.h"

namespace coldframe::temporal {

// Explains exams of the first repeat and the first target: for each of the first classes the most
// confident correct and wrong decision; for a regression the highest and lowest prediction and the
// largest errors in both directions. Uses the models in the folder `run` that did not see the exam.
// The dataset must hold the exams. `weights`: of the ViT, as in PatchMaps, to map patches, too,
// which are then written into `run`/maps.
// Empty for per-frame targets.
FrameReport explain_examples(const ModelPredictions& main, const Cohort& cohort,
                             const Dataset& dataset, const std::filesystem::path& run,
                             cache::Pictures& pictures,
                             const std::optional<std::filesystem::path>& weights);

}  // namespace coldframe::temporal
