// A tuned fit goes on from the same model on the cached features: fitted first by this run, or
// taken from an earlier one (Kumar et al. 2022, arXiv:2202.10054: tuning everything at once
// distorts features, which costs most on patients unlike those of the training).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/torch/safetensors.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

// The fit on cached features from which a tuned one goes on.
FitName frozen_fit(const FitName& tuned, const TrainOptions& options);
// The model of which frozen_fit() names a fit; other names stay.
std::string thawed(const std::string& model, const TrainOptions& options);

// The weights that a fit goes on from: of a tuned one those of its frozen_fit(), of that one those
// in the run --from names. Null where it starts anew.
std::shared_ptr<const StateDict> start_of(const Experiment& experiment, const RunFolder& folder,
                                          const FitName& fit);

// ConfigError unless the run --from names has a model of every fit that goes on from it, of the
// same configuration, targets, features and splits.
void check_earlier_run(const Experiment& experiment, const Cohort& cohort);

}  // namespace coldframe::temporal
