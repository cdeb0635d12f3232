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

// Explains exams of the first repeat and the first target: for each of the first classes the surest
// right decision and the surest wrong one, for a regression the highest and lowest prediction and
// the largest errors either way. The models in the folder `run` that did not see an exam explain
// it. The dataset must hold the exams. `weights`: of the ViT, as PatchMaps has them, where patches
// of the frames are mapped, too. Empty where targets are of frames.
FrameReport explain_examples(const ModelPredictions& main, const Cohort& cohort,
                             const Dataset& dataset, const std::filesystem::path& run,
                             cache::Pictures& pictures,
                             const std::optional<std::filesystem::path>& weights);

}  // namespace coldframe::temporal
