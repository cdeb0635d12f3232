#include "train_temporal/commands/tuning.h"

#include <c10/util/Exception.h>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"
#include "train_temporal/explain/patch_maps.h"
#include "train_temporal/training/tuned/tune_memory.h"

namespace coldframe::temporal {
namespace {

void resolve_blocks(std::int64_t& blocks, const tune::TunedSource& source) {
  const std::int64_t depth = source.architecture().depth, behind = depth - source.cut();
  if (behind == 0) {
    throw ConfigError(concat("the cache is cut behind the last of ", depth,
                             " blocks, so that none can be trained; extract with --cut ", depth - 1,
                             " or less"));
  }
  if (blocks > behind) {
    throw ConfigError(concat("--tune-blocks ", blocks, ": the cache is cut at block ", source.cut(),
                             " of ", depth, ", so that at most ", behind, " can be trained; ",
                             blocks > depth ? std::string("take fewer")
                                            : concat("extract with --cut ", depth - blocks)));
  }
  if (blocks == 0) blocks = behind;
}

}  // namespace

std::unique_ptr<tune::TunedSource> open_vit(TrainOptions& options, const Cohort& cohort) {
  if (!options.tune.asked()) return nullptr;
  const auto cut = cohort.cache.cut();
  if (!cut) {
    throw ConfigError(concat("--tune: '", options.data.cache.string(),
                             "' holds features alone; extract with --cut BLOCK, which keeps what "
                             "enters that block of the ViT"));
  }
  keep_freed_memory();
  const std::string weights = options.tune.weights == kRandomWeights ? "" : options.tune.weights;
  std::unique_ptr<tune::TunedSource> source;
  try {
    source =
        std::make_unique<tune::TunedSource>(cohort.cache.recipe().features, cut->block, weights);
  } catch (const c10::OutOfMemoryError&) {
    throw SystemError("the ViT's weights alone need more than --memory-budget allows; raise it");
  }
  tune::TuneOptions& vit = options.fit.tune.vit;
  resolve_blocks(vit.blocks, *source);
  log_info(concat(vit.lora_rank > 0
                      ? concat("low-rank matrices of rank ", vit.lora_rank, " beside ")
                      : std::string("tuning "),
                  "the last ", plural(static_cast<std::size_t>(vit.blocks), "block"), " of ",
                  source->architecture().depth, ", the model first on cached features"));
  return source;
}

void check_example_maps(const TrainOptions& options, const Cohort& cohort,
                        const ModelConfig& main) {
  if (!options.maps) return;
  ModelMetadata card;
  card.config = main;
  card.recipe = cohort.cache.recipe();
  card.arrangement = options.data.arrangement;
  if (options.tune.asked()) card.tuned.emplace();
  check_maps(card, options.weights);
  require_cut(cohort.cache);
  require_explained(cohort.targets.list(), "--maps");
  if (!card.tuned)
    tune::TunedSource(card.recipe.features, cohort.cache.cut()->block, options.weights);
}

void check_tuning(const Experiment& experiment) {
  if (experiment.tuned == nullptr) return;
  for (const Split& split : experiment.splits)
    plan_tuning(experiment.task({experiment.options.model, split.repeat, split.fold, 0}, split));
}

Json tune_json(const TrainOptions& options, const tune::TunedSource& source) {
  Json json = {{"cut", source.cut()}};
  json.update(options_json(options, "tune"));
  return json;
}

}  // namespace coldframe::temporal
