// `--search` draws from these: the settings that decide how much a small cohort is learnt by heart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_temporal/models/model_config.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

struct Setting {
  Json values;  // by option, as search.csv and config.json have them

  bool operator==(const Setting&) const = default;
  void apply(ModelConfig& config, FitOptions& fit) const;
};
// The options of `config` and `fit` that --search draws.
Setting setting_of(ModelConfig config, FitOptions fit);

// At most `count` settings of a fit of `config`; the first is that of the arguments. The others are
// drawn as the rows of the options say (options/train_rows.cpp), those of the pooling where the
// model reads in order. What differs from the program's defaults was asked for, and stays; settings
// that are then equal count once. ConfigError when all of them are.
std::vector<Setting> draw_settings(ModelConfig config, FitOptions fit, std::size_t count,
                                   std::uint64_t seed);

}  // namespace coldframe::temporal
