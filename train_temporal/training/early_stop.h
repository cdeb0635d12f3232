// Stops when the validation loss has not improved for a while. A plain value, so that a checkpoint
// can hold it.
#pragma once

#include <cstddef>
#include <limits>

namespace coldframe::temporal {

struct EarlyStop {
  std::size_t patience = 10;  // epochs without improvement after which to stop; 0 never stops

  double best_loss = std::numeric_limits<double>::infinity();
  std::size_t best_epoch = 0;  // counted from 0, as are the calls of update()
  std::size_t epochs = 0;      // losses seen

  // True when `loss`, a finite number, is the best so far: keep these weights.
  bool update(double loss) {
    const bool improved = loss < best_loss;
    if (improved) {
      best_loss = loss;
      best_epoch = epochs;
    }
    ++epochs;
    return improved;
  }

  bool should_stop() const {
    return patience > 0 && epochs > 0 && epochs - 1 - best_epoch >= patience;
  }
};

}  // namespace coldframe::temporal
