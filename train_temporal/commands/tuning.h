// `coldframe train`: the ViT that is trained with the model (--tune), or looked into (--maps).
#pragma once

#include <memory>

#include "common/files/json.h"
#include "train_temporal/run/cohort/cohort.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

// Null without --tune. Puts the number of blocks that are trained into the options. ConfigError and
// DataError: no cut in the cache, another ViT than the cache's, more blocks than lie behind the
// cut.
std::unique_ptr<tune::TunedSource> open_vit(TrainOptions& options, const Cohort& cohort);

// What steps of the ViT take: as the run began with, by its configuration, or measured now (`begun`
// has none). Null without --tune. DataError: the configuration is damaged.
std::shared_ptr<const tune::ChainCosts> vit_costs(const Experiment& experiment, const Json& begun);

// SystemError, before anything is fitted, when the budget leaves nothing to the ViT's step.
void check_tuning(const Experiment& experiment);

// ConfigError and DataError for --maps before anything is fitted: nothing to map, or wrong weights.
void check_example_maps(const TrainOptions& options, const Cohort& cohort, const ModelConfig& main);

Json tune_json(const TrainOptions& options, const tune::TunedSource& source);  // for config.json

}  // namespace coldframe::temporal
