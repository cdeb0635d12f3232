// What each patch of each frame adds to what is said of an exam, as files: `predict --maps`.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "train_temporal/explain/patch_maps.h"

namespace coldframe::temporal {

class MapWriter {
 public:
  // `folder`: made here. The models and the dataset must live on; the others as PatchMaps has them.
  MapWriter(std::filesystem::path folder, std::span<const TrainedModel> models,
            const Dataset& dataset, const std::filesystem::path& weights);

  // Of each exam PLACE-EXAM/patches.csv and a picture of each frame, SLOT.png; of further targets
  // SLOT-2.png and so on. `exams`: with their gradients, each exam with all of its `targets`. The
  // first one's place is `place`.
  void add(std::size_t place, std::span<const ExplainedExam> exams, std::size_t targets,
           const std::function<void()>& frame_done);

  const PatchMaps& maps() const { return maps_; }

 private:
  void write(const std::filesystem::path& folder, std::span<const ExplainedExam> targets,
             std::span<const torch::Tensor> maps);

  std::filesystem::path folder_;
  std::span<const TrainedModel> models_;
  const SequenceReader& cache_;
  PatchMaps maps_;
};

// What `--overwrite` may replace.
void require_maps(const std::filesystem::path& folder);

}  // namespace coldframe::temporal
