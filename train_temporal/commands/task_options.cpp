#include "train_temporal/commands/task_options.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {

void check_task_options(const TrainOptions& options, const Targets& targets) {
  const LossOptions& loss = options.fit.objective.loss;
  if (std::ranges::none_of(targets, [&](const Labels& one) { return applies(loss, one.task); })) {
    throw ConfigError(concat("--loss ", to_string(loss), " fits no target here: '", targets[0].name,
                             "' is learnt as ", task_name(targets[0].task)));
  }
  const bool classes = std::ranges::any_of(targets, &Labels::has_classes);
  if (options.fit.objective.class_weights && !classes) {
    throw ConfigError(concat("--class-weights needs classes, and '", targets[0].name,
                             "' is learnt as ", task_name(targets[0].task)));
  }
  if (options.fit.balanced && (targets.size() > 1 || targets.per_frame() || !classes)) {
    throw ConfigError("--sampler balanced needs a single target of exams, with classes");
  }
  if (!targets.per_frame()) return;
  if (options.pool_given) {
    throw ConfigError(concat("--temporal-pool makes one output of all frames, but '",
                             targets.names(), "' has a value per frame; leave the option out"));
  }
  for (const std::string& model : options.models()) {
    if (model != "mean" && model != "attention") continue;
    throw ConfigError(concat("model ", model, " has one output per exam, and '", targets.names(),
                             "' a value per frame; expected gru, bigru, lstm, single (every frame "
                             "by itself), shuffled or clock (its place and time)"));
  }
}

}  // namespace coldframe::temporal
