#include "train_temporal/ensemble.h"

#include "common/error.h"
#include "common/interrupt.h"
#include "common/text.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/run_folder.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

Ensemble::Ensemble(const std::filesystem::path& run) {
  for (const auto& path : model_files(run)) {
    models_.push_back(read_model(path));
    const ModelCard& added = models_.back().card;
    if (added.config != card().config || added.classes != card().classes ||
        added.target != card().target ||
        added.recipe.feature_digest() != card().recipe.feature_digest()) {
      throw DataError(
          concat("'", path.string(),
                 "' differs from the run's other models in its "
                 "configuration, target or classes; a run's models must come from one training"));
    }
  }
}

double Ensemble::threshold() const {
  double sum = 0;
  for (const TrainedModel& trained : models_) sum += trained.card.threshold;
  return sum / static_cast<double>(models_.size());
}

std::vector<double> Ensemble::probabilities(const cache::CacheReader& cache,
                                            const std::vector<std::size_t>& exams,
                                            const torch::Device& device) {
  const Dataset dataset = load_dataset(cache, exams, card().source_kinds, device);
  const auto classes = static_cast<std::size_t>(card().config.classes);
  std::vector<double> mean(exams.size() * classes);
  ThreadTeam team;
  for (TrainedModel& trained : models_) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    trained.model->to(device);
    const auto logits = predict_logits(
        *trained.model,
        {dataset, trained.card.config, trained.card.fit_seed, evaluation_size(dataset)}, exams,
        team);
    const auto probability = softmax(logits, classes, trained.card.temperature);
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += probability[i] / static_cast<double>(models_.size());
    }
  }
  return mean;
}

}  // namespace coldframe::temporal
