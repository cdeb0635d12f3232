#include "train_temporal/run/ensemble.h"

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

namespace {

// `--search` may have given every fold a setting of its own, and fits of `single` may each have
// chosen their frame.
bool same_but_for_choices(ModelConfig a, const ModelConfig& b) {
  a.hidden = b.hidden;
  a.dropout = b.dropout;
  if (a.per_frame() == b.per_frame()) a.pool = b.pool;
  if (is_one_frame(a.order) && is_one_frame(b.order)) a.order = b.order;
  return a == b;
}

}  // namespace

Ensemble::Ensemble(const std::vector<std::filesystem::path>& files) {
  for (const auto& path : files) {
    models_.push_back(read_model(path));
    const ModelCard& added = models_.back().card;
    if (!same_but_for_choices(added.config, card().config) || added.targets != card().targets ||
        added.recipe.feature_digest() != card().recipe.feature_digest()) {
      throw DataError(
          concat("'", path.string(),
                 "' differs from the run's other models in its "
                 "configuration or targets; a run's models must come from one training"));
    }
  }
}

double Ensemble::threshold(std::size_t target) const {
  double sum = 0;
  for (const TrainedModel& trained : models_) sum += trained.card.readings[target].threshold;
  return sum / static_cast<double>(models_.size());
}

std::vector<std::vector<double>> Ensemble::scores(const cache::CacheReader& cache,
                                                  const std::vector<std::size_t>& exams,
                                                  const torch::Device& device) {
  const Dataset dataset = load_dataset(cache, exams, card().source_kinds, device);
  std::vector<std::vector<double>> mean(targets().size());
  ThreadTeam team;
  for (TrainedModel& trained : models_) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    trained.model->to(device);
    const auto outputs = predict_logits(
        *trained.model,
        {dataset, trained.card.config, trained.card.fit_seed, evaluation_size(dataset)}, exams,
        team);
    for (std::size_t t = 0; t < mean.size(); ++t) {
      const auto scores = scores_of(trained.card, t, outputs);
      mean[t].resize(scores.size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        mean[t][i] += scores[i] / static_cast<double>(models_.size());
      }
    }
  }
  return mean;
}

}  // namespace coldframe::temporal
