#include "train_temporal/commands/tuning.h"

#include <c10/util/Exception.h>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/error_text.h"
#include "train_temporal/explain/maps.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/training/tuned/tune_memory.h"
#include "train_temporal/tune/measured_costs.h"
#include "train_temporal/tune/trained_parameters.h"

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

// `leave_out`: what the user may do without.
std::unique_ptr<tune::TunedSource> read_vit(const Cohort& cohort, const std::string& weights,
                                            const char* leave_out) {
  try {
    return std::make_unique<tune::TunedSource>(cohort.cache.recipe().features,
                                               cohort.cache.cut()->block, weights);
  } catch (const c10::OutOfMemoryError& error) {
    throw SystemError(concat("the ViT's weights do not fit into memory: ", first_line(error),
                             "; raise --memory-budget, or leave out ", leave_out));
  }
}

}  // namespace

std::unique_ptr<tune::TunedSource> open_vit(TrainOptions& options, const Cohort& cohort) {
  if (!options.tune.asked()) return nullptr;
  if (!cohort.cache.cut()) {
    throw ConfigError(concat("--tune: '", options.data.cache.string(),
                             "' holds features alone; extract with --cut BLOCK, which keeps what "
                             "enters that block of the ViT"));
  }
  const std::string weights = options.tune.weights == kRandomWeights ? "" : options.tune.weights;
  auto source = read_vit(cohort, weights, "--tune");
  tune::TuneOptions& vit = options.fit.tune.vit;
  resolve_blocks(vit.blocks, *source);
  log_info(concat(vit.lora_rank > 0
                      ? concat("low-rank matrices of rank ", vit.lora_rank, " beside ")
                      : std::string("tuning "),
                  "the last ", plural(static_cast<std::size_t>(vit.blocks), "block"), " of ",
                  source->architecture().depth, ", the model first on cached features"));
  return source;
}

std::shared_ptr<const tune::ChainCosts> vit_costs(const Experiment& experiment, const Json& begun) {
  if (experiment.tuned == nullptr) return nullptr;
  if (const auto known = begun.find(kVitCosts); known != begun.end())
    return std::make_shared<tune::ChainCosts>(tune::costs_from_json(*known));
  const FitOptions& fit = experiment.options.fit;
  set_torch_threads(fit.tune.threads);
  try {
    const auto measured = std::make_shared<tune::ChainCosts>(tune::measure_costs(
        tune::trained_shape(*experiment.tuned, vit_options(fit)), experiment.device()));
    reset_device_memory_peak(experiment.device());  // the run's own peak is what is told
    return measured;
  } catch (const c10::OutOfMemoryError& error) {
    throw SystemError(concat("a block of the ViT does not fit into memory: ", first_line(error),
                             "; raise --memory-budget, or leave out --tune"));
  }
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
  // Fits need the memory: the weights are read again for the maps.
  if (!card.tuned) read_vit(cohort, options.weights.string(), "--maps");
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
