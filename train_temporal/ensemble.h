// All models of a run, applied together to a cache that none of them has seen.
#pragma once

#include <filesystem>
#include <vector>

#include "cache/reader.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::temporal {

class Ensemble {
 public:
  // Reads every model of the run. ConfigError when it is not a run, DataError for damaged models.
  explicit Ensemble(const std::filesystem::path& run);

  std::vector<TrainedModel>& models() { return models_; }
  const ModelCard& card() const { return models_.front().card; }
  std::size_t size() const { return models_.size(); }
  double threshold() const;  // the mean over folds

  // Probabilities [n, C] of the exams given by index: each model's at its temperature, averaged.
  std::vector<double> probabilities(const cache::CacheReader& cache,
                                    const std::vector<std::size_t>& exams,
                                    const torch::Device& device);

 private:
  std::vector<TrainedModel> models_;
};

}  // namespace coldframe::temporal
