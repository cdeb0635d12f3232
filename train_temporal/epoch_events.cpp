#include "train_temporal/epoch_events.h"

#include "train_temporal/metrics/calibration.h"
#include "train_temporal/metrics/metrics.h"

namespace coldframe::temporal {
namespace {

std::vector<Scalar> losses(const EpochLosses& epoch) {
  return {{"loss/train", static_cast<float>(epoch.train)},
          {"loss/validation", static_cast<float>(epoch.validation)},
          {"learning_rate", static_cast<float>(epoch.learning_rate)}};
}

// Of a single target of exams with classes; undefined for others.
Figure validation_auroc(const Trainer& trainer) {
  const FitTask& task = trainer.task();
  const Labels& labels = task.targets[0];
  if (task.targets.size() > 1 || labels.per_frame || labels.scale() != Scale::kNominal) {
    return Figure::none("not the classes of one target of exams");
  }
  ScoredExams exams;
  exams.classes = labels.classes.size();
  exams.probability = softmax(trainer.last_epoch().validation_logits, exams.classes, 1.0);
  for (std::size_t exam : task.split.validation) exams.label.push_back(labels.value[exam]);
  exams.decision.resize(exams.label.size());
  return compute_metric(Metric::kAuroc, exams);
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
  const Figure auroc = validation_auroc(trainer);
  if (auroc.defined()) scalars.push_back({"validation/auroc", static_cast<float>(auroc.value)});
  scalars.push_back({"time/step", static_cast<float>(epoch.train_seconds / double(epoch.steps))});
  scalars.push_back({"time/epoch", static_cast<float>(epoch.seconds)});
  file_.add(scalars);
}

}  // namespace coldframe::temporal
