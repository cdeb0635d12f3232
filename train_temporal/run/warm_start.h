// Where a tuned fit starts, and the folder of the backbone that it tuned.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cache/format/recipe.h"
#include "common/torch/safetensors.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

// A tuned fit goes on from the same model on the cached features: fitted first by this run, or
// taken from an earlier one (Kumar et al. 2022, arXiv:2202.10054: tuning everything at once
// distorts features, which costs most on patients unlike those of the training).

// The fit on cached features from which a tuned one goes on.
FitName frozen_fit(const FitName& tuned, const TrainOptions& options);
// The model of which frozen_fit() names a fit; other names stay.
std::string tuned_counterpart(const std::string& model, const TrainOptions& options);

// The weights that a fit goes on from: of a tuned one those of its frozen_fit(), of that one those
// in the run --from names. Null where it starts anew.
std::shared_ptr<const StateDict> start_of(const Experiment& experiment, const RunFolder& folder,
                                          const FitName& fit);

// ConfigError unless the run --from names has a model of every fit that goes on from it, of the
// same configuration, targets, features and splits.
void check_earlier_run(const Experiment& experiment, const Cohort& cohort);

// The ViTs that a run has tuned, each as a folder that `extract --weights` takes.

class BackboneWriter {
 public:
  // `recipe`: of the cache that the ViTs were tuned on.
  explicit BackboneWriter(const cache::Recipe& recipe) : recipe_(recipe) {}

  // Writes weights under timm's names; config.json as timm has it, where timm has the model and can
  // say how its images are prepared; and extract.ini with all options of the recipe. What no fit of
  // the run trains is one file for all folders. Returns the weights' SHA-256 as recipes have it.
  std::string write(const std::filesystem::path& folder, const FitTask& task,
                    const FitRecord& record);

 private:
  void write_frozen(const std::filesystem::path& path, const StateDict& tensors);

  const cache::Recipe& recipe_;
  std::filesystem::path frozen_;  // the file that is shared, once it is written
};

// The recipe of a cache, as far as it says how features are made, as timm's config.json; null where
// that cannot say it.
Json timm_config(const Json& features, const std::string& model);

}  // namespace coldframe::temporal
