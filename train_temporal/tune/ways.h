// How a training step goes about its memory: which strategy, how many frames at a time, and how
// many chunks keep their graphs from the first pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "train_temporal/tune/choose.h"

namespace coldframe::tune {

class Ways {
 public:
  Ways(std::optional<Strategy> strategy, std::int64_t chunk) : most_(chunk) {
    way_.strategy = strategy.value_or(Strategy::kNone);
  }
  // For a step of so many frames.
  const Way& choose(std::int64_t rows) {
    if (way_.chunk == 0) {
      way_.chunk = most_ > 0 ? std::min(most_, rows) : rows;
      way_.kept = most_ > 0 ? 0 : 1;
    }
    return way_;
  }
  const Way& current() const { return way_; }
  void shrink(std::int64_t) {
    way_.kept = 0;
    if (way_.chunk == 1 && way_.strategy == Strategy::kBlock) throw std::runtime_error("no way");
    if (way_.chunk == 1)
      way_.strategy = Strategy::kBlock;
    else
      way_.chunk = (way_.chunk + 1) / 2;
  }
  Schedule schedule(std::int64_t, std::size_t steps) const {
    return make_schedule(way_.strategy, std::vector<StepCost>(steps), 0, 0);
  }

 private:
  Way way_;
  std::int64_t most_;
};

}  // namespace coldframe::tune
