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

// A tuned fit starts from the same model on the cached features, fitted first by this run or taken
// from an earlier one (Kumar et al. 2022, arXiv:2202.10054: fine-tuning everything at once distorts
// features, which hurts most out of distribution).

// The fit on cached features from which a tuned one starts.
FitName frozen_fit(const FitName& tuned, const TrainOptions& options);
// The inverse of frozen_fit() for model names; returns other names unchanged.
std::string tuned_counterpart(const std::string& model, const TrainOptions& options);

// The initial weights of a fit: for a tuned one those of its frozen_fit(), for that one those of
// the run in --from. Null: new weights.
std::shared_ptr<const StateDict> start_of(const Experiment& experiment, const RunFolder& folder,
                                          const FitName& fit);

// ConfigError unless the run in --from has a model for every fit that starts from it, with the same
// configuration, targets, features and splits.
void check_earlier_run(const Experiment& experiment, const Cohort& cohort);

// Writes the tuned ViTs of a run, each as a folder for `extract --weights`.

class BackboneWriter {
 public:
  // `recipe`: of the cache that the ViTs were tuned on.
  explicit BackboneWriter(const cache::Recipe& recipe) : recipe_(recipe) {}

  // Writes weights under timm's names, timm's config.json (if timm has the model and can express
  // its preprocessing), and extract.ini with all options of the recipe. All folders share one file
  // of the weights that no fit trains. Returns the weights' SHA-256 as in recipes.
  std::string write(const std::filesystem::path& folder, const FitTask& task,
                    const FitRecord& record);

 private:
  void write_frozen(const std::filesystem::path& path, const StateDict& tensors);

  const cache::Recipe& recipe_;
  std::filesystem::path frozen_;  // the file that is shared, once it is written
};

// The feature part of a cache's recipe as timm's config.json; null if that cannot express it.
Json timm_config(const Json& features, const std::string& model);

}  // namespace coldframe::temporal
