#include "train_temporal/run/options/tune_options.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/options/options.h"
#include "train_temporal/run/options/rows.h"

namespace coldframe::temporal {

void add_tune(OptionRows& rows, TrainOptions& options) {
  rows.group("Training of the ViT");
  constexpr const char *kTune = "tune", *kWeights = "WEIGHTS";
  TuneFit& fit = options.fit.tune;
  rows.text(kTune, options.tune.weights, kWeights,
            "train the end of the ViT with the model, on a cache made with `extract --cut`: its "
            "weights, as for extract --weights, or random where the cache is of random ones")
      .input();
  rows.number("tune-blocks", fit.vit.blocks, between(0, 1000),
              "train the last N blocks and what follows; 0: all behind the cut")
      .needs(kTune, kWeights)
      .in("tune.blocks");
  rows.number("lora", fit.vit.lora_rank, between(0, 4096),
              "train low-rank matrices of this rank beside qkv and proj of these blocks instead; "
              "0: the blocks themselves")
      .needs(kTune, kWeights)
      .in("tune.lora_rank");
  rows.number("tune-lr", fit.learning_rate, above(0),
              "the ViT's learning rate at its highest (the model's is --lr); LoRA wants about ten "
              "times the default")
      .needs(kTune, kWeights)
      .in("tune.learning_rate");
  rows.number("tune-dropout", fit.dropout, below_one(),
              "behind attention and perceptron of the trained blocks")
      .needs(kTune, kWeights)
      .in("tune.dropout");
  rows.number(
          "tune-drop-path", fit.vit.drop_path, below_one(),
          "stochastic depth: the share of frames for which the ViT's last block adds nothing in "
          "a step, and less from there to its first block, as timm's drop_path_rate")
      .needs(kTune, kWeights)
      .in("tune.drop_path");
  rows.text("from", options.tune.from, "RUN",
            "go on from the models of a run on the cached features, of the same splits and "
            "options; without it they are fitted first")
      .needs(kTune, kWeights)
      .input()
      .in("tune.from");
}

void check_tune(const TrainOptions& options) {
  if (!options.tune.asked()) {
    if (!options.trains(kFrozen)) return;
    throw ConfigError(concat("--compare ", kFrozen,
                             " is the control of --tune; without it all models are frozen"));
  }
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
