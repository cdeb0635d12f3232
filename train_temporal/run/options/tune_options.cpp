#include "train_temporal/run/options/tune_options.h"

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "train_temporal/run/options/option_values.h"
#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {
namespace {

void require_alone(const TrainOptions& options) {
  const TuneFit given = options.fit.tune, standard;
  const std::pair<bool, const char*> all[] = {
      {given.vit.blocks != standard.vit.blocks, "tune-blocks"},
      {given.vit.lora_rank != standard.vit.lora_rank, "lora"},
      {given.learning_rate != standard.learning_rate, "tune-lr"},
      {given.dropout != standard.dropout, "tune-dropout"},
      {!options.tune.from.empty(), "from"}};
  for (const auto& [is_given, option] : all) {
    if (is_given)
      throw ConfigError(concat("--", option, " is for --tune WEIGHTS; give both, or neither"));
  }
  if (std::ranges::find(options.compare, kFrozen) == options.compare.end()) return;
  throw ConfigError(
      concat("--compare ", kFrozen, " is the control of --tune; without it all models are frozen"));
}

}  // namespace

void add_tune(boost::program_options::options_description& description, std::string& from,
              TrainOptions& options) {
  auto add = description.add_options();
  TuneFit& fit = options.fit.tune;
  add("tune", text(options.tune.weights, "WEIGHTS"),
      "train the end of the ViT with the model, on a cache made with `extract --cut`: its weights, "
      "as for extract --weights, or random where the cache is of random ones");
  add("tune-blocks", number(fit.vit.blocks),
      "train the last N blocks and what follows; 0: all behind the cut");
  add("lora", number(fit.vit.lora_rank),
      "train low-rank matrices of this rank beside qkv and proj of these blocks instead; 0: the "
      "blocks themselves");
  add("tune-lr", number(fit.learning_rate),
      "the ViT's learning rate at its highest (the model's is --lr); LoRA wants about ten times "
      "the default");
  add("tune-dropout", number(fit.dropout), "behind attention and perceptron of the trained blocks");
  add("from", text(from, "RUN"),
      "go on from the models of a run on the cached features, of the same splits and options; "
      "without it they are fitted first");
}

void check_tune(const TrainOptions& options) {
  if (!options.tune.asked()) return require_alone(options);
  const TuneFit& fit = options.fit.tune;
  const auto require = [](bool fine, const char* option, const char* expected) {
    if (!fine) throw ConfigError(concat("--", option, ": expected ", expected));
  };
  require(fit.vit.blocks >= 0 && fit.vit.blocks <= 1000, "tune-blocks", "0 to 1000");
  require(fit.vit.lora_rank >= 0 && fit.vit.lora_rank <= 4096, "lora", "0 to 4096");
  require(fit.learning_rate > 0, "tune-lr", "more than 0");
  require(fit.dropout >= 0 && fit.dropout < 1, "tune-dropout", "0 or more and less than 1");
  if (options.search > 0) {
    throw ConfigError(
        "--search tries settings on cached features, and --tune trains the ViT; search without "
        "--tune first, and give what it finds");
  }
  if (!tunes(options.model)) {
    throw ConfigError(concat("--tune trains the ViT with a model that sees features, and ",
                             options.model, " sees none; take another --model, or leave it out"));
  }
}

}  // namespace coldframe::temporal
