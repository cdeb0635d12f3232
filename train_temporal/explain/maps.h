// What each patch of each frame adds to what is said of an exam, as files: `predict --maps`.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "train_temporal/data/feature_stream.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/explain/patch_contributions.h"

namespace coldframe::temporal {

// ConfigError where there is nothing to map: the backbone is no ViT, the models see no frames, or
// frames of several streams, the cache has no cut, or the ViT's weights are not given.
void check_maps(const cache::CacheReader& cache, std::span<const TrainedModel> models,
                const std::filesystem::path& weights);

class MapWriter {
 public:
  // `folder`: made here. `weights`: of the ViT that made the cache; tuned models have their own.
  // `dataset`: loaded from the cache, which has a cut. Both must live on, and so must the models.
  MapWriter(std::filesystem::path folder, std::span<const TrainedModel> models,
            const Dataset& dataset, const std::filesystem::path& weights);
  ~MapWriter();

  // Writes PLACE-EXAM/patches.csv and a picture of each frame, SLOT.png; of further targets
  // SLOT-2.png and so on. `targets`: all entries of the exam, with their gradients.
  void add(std::size_t place, std::span<const ExplainedExam> targets);

  std::int64_t block() const;
  // The largest of any frame, in units of what is explained (for a number, standard deviations).
  double largest_gap() const { return largest_gap_; }

 private:
  class Vit;
  torch::Tensor patches_of(const ExplainedExam& exam, const torch::Tensor& rows);

  std::filesystem::path folder_;
  std::span<const TrainedModel> models_;
  const Dataset& dataset_;
  FeatureStream cut_;                       // the rows of present frames, as the cut stores them
  std::vector<std::unique_ptr<Vit>> vits_;  // one, or of each tuned model its own
  double largest_gap_ = 0;
};

// What `--overwrite` may replace.
void require_maps(const std::filesystem::path& folder);

}  // namespace coldframe::temporal
