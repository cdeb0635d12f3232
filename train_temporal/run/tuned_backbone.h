// The ViTs that a run has tuned, each as a folder that `extract --weights` takes.
#pragma once

#include <filesystem>
#include <string>

#include "cache/format/recipe.h"
#include "train_temporal/training/checkpoint.h"

namespace coldframe::temporal {

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
