#include "train_temporal/run/epoch_events.h"

#include "common/text/text.h"
#include "train_temporal/metrics/metric_table.h"
#include "train_temporal/training/objective/validation_figure.h"

namespace coldframe::temporal {
namespace {

std::vector<Scalar> losses(const EpochLosses& epoch) {
  return {{"loss/train", static_cast<float>(epoch.train)},
          {"loss/validation", static_cast<float>(epoch.validation)},
          {"learning_rate", static_cast<float>(epoch.learning_rate)}};
}

// Adds the figures of every target, where they are defined.
void add_validation(const Trainer& trainer, std::vector<Scalar>& scalars) {
  const Targets& targets = trainer.task().targets;
  const Split& split = trainer.task().split;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const ScoredExams rows =
        validation_rows(targets, t, split, trainer.last_epoch().validation_logits);
    const std::string of = targets.size() > 1 ? targets[t].name + "/" : "";
    for (const Metric metric : metrics_with(&MetricRow::every_epoch, rows.scale)) {
      const MetricValue figure = compute_metric(metric, rows);
      if (!figure.defined()) continue;
      scalars.push_back({concat("validation/", of, metric->key), static_cast<float>(figure.value)});
    }
  }
}

}  // namespace

EpochEvents::EpochEvents(const std::filesystem::path& path, const Trainer& trainer)
    : file_(path, static_cast<std::int64_t>(trainer.history().size())) {
  const auto& history = trainer.history();
  for (auto step = static_cast<std::size_t>(file_.steps()); step < history.size(); ++step) {
    file_.add(losses(history[step]));
  }
}

void EpochEvents::add(const Trainer& trainer) {
  const auto& history = trainer.history();
  if (static_cast<std::size_t>(file_.steps()) == history.size()) return;  // the epoch diverged
  const LastEpoch& epoch = trainer.last_epoch();
  std::vector<Scalar> scalars = losses(history.back());
  add_validation(trainer, scalars);
  scalars.push_back({"time/step", static_cast<float>(epoch.train_seconds / double(epoch.steps))});
  scalars.push_back({"time/epoch", static_cast<float>(epoch.seconds)});
  file_.add(scalars);
}

}  // namespace coldframe::temporal
