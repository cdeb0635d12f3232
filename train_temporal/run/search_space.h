// `--search` draws from these: the kind of model, what it sees and pools, and the settings that
// decide how much a small cohort is learnt by heart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_temporal/run/options.h"

namespace coldframe::temporal {

struct Setting {
  Json values;  // by option, as search.csv and config.json have them

  bool operator==(const Setting&) const = default;
  void apply(ModelChoice& choice) const;
};

// At most `count` settings; the first is `given`. The others are drawn as the rows of the options
// say (options.cpp), as far as the model can have them. The options in `stay` stay as
// given; settings that are then equal count once. Of `auto` they are of the model beside which each
// fit tries a summary, first `gru`. ConfigError when all settings are equal.
std::vector<Setting> draw_settings(ModelChoice given, const GivenOptions& stay, std::size_t count,
                                   std::uint64_t seed);

}  // namespace coldframe::temporal
