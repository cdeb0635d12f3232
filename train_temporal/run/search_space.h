// The search space of `--search`: the kind of model, its inputs and pooling, and the settings that
// control overfitting on a small cohort.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_temporal/run/options.h"

namespace coldframe::temporal {

struct Setting {
  Json values;  // by option, as in search.csv and config.json

  bool operator==(const Setting&) const = default;
  void apply(ModelChoice& choice) const;
};

// At most `count` distinct settings; the first is `given`. The others are drawn as the option rows
// define (options.cpp), as far as they apply to the model; options in `stay` keep their given
// values. For `auto` they apply to the sequence model, at first `gru`, next to which each fit tries
// a summary. ConfigError if all settings are equal.
std::vector<Setting> draw_settings(ModelChoice given, const GivenOptions& stay, std::size_t count,
                                   std::uint64_t seed);

}  // namespace coldframe::temporal
