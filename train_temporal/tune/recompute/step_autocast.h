// The half precision of a step.
#pragma once

#include <ATen/autocast_mode.h>

#include "train_temporal/models/mixed_precision.h"

namespace coldframe::tune {

// Autocast keeps the half-precision copies of weights that it made until it ends. A copy made while
// a step ran without a graph has no way back to its weight: a step that ran again with a graph
// would take it, and the weight would get no gradient, without a word. So nothing is kept.
class StepAutocast {
 public:
  StepAutocast(torch::ScalarType type, const torch::Device& device)
      : cached_(at::autocast::is_autocast_cache_enabled()), autocast_({type}, device) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~StepAutocast() { at::autocast::set_autocast_cache_enabled(cached_); }
  StepAutocast(const StepAutocast&) = delete;
  StepAutocast& operator=(const StepAutocast&) = delete;

 private:
  bool cached_;
  temporal::Autocast autocast_;
};

}  // namespace coldframe::tune
