// `--search` draws from these: the settings that decide how much a small cohort is learnt by heart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train_temporal/models/model_config.h"
#include "train_temporal/training/trainer.h"

namespace coldframe::temporal {

struct Setting {
  std::int64_t hidden = 0;
  TemporalPool pool = TemporalPool::kAttention;
  double dropout = 0, noise = 0, learning_rate = 0, weight_decay = 0;

  bool operator==(const Setting&) const = default;
  void apply(ModelConfig& config, FitOptions& fit) const;
};
Setting setting_of(const ModelConfig& config, const FitOptions& fit);
Json to_json(const Setting& setting);

// At most `count` settings of a fit of `config`; the first is that of the arguments. The others are
// drawn:
//   hidden        32, 64 or 128
//   pool          mean, attention or last, of models that read in order, on targets of exams
//   dropout       0 to 0.6
//   noise         0 to 1
//   lr            0.0005 to 0.005, by its logarithm
//   weight-decay  0.001 to 0.1, by its logarithm
// What differs from the program's defaults was asked for, and stays; settings that are then equal
// count once. ConfigError when all of them are.
std::vector<Setting> draw_settings(const ModelConfig& config, const FitOptions& fit,
                                   std::size_t count, std::uint64_t seed);

}  // namespace coldframe::temporal
