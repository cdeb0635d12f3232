// Stops when the validation loss has not improved for a while. A plain value, so that a checkpoint
// can hold it.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace coldframe::temporal {

struct EarlyStop {
  std::size_t patience = 10;  // epochs without improvement after which to stop; 0 never stops
  double min_delta = 0.0;     // an improvement is larger than this

  double best_loss = std::numeric_limits<double>::infinity();
  std::size_t best_epoch = 0;  // counted from 0, as are the calls of update()
  std::size_t epochs = 0;      // losses seen

  // True when `loss` is the best so far: keep these weights. A loss that is not finite never is.
  bool update(double loss) {
    const bool improved = std::isfinite(loss) && loss < best_loss - min_delta;
    if (improved) {
      best_loss = loss;
      best_epoch = epochs;
    }
    ++epochs;
    return improved;
  }

  bool should_stop() const {
    if (patience == 0 || epochs == 0) return false;
    const std::size_t since = std::isfinite(best_loss) ? epochs - 1 - best_epoch : epochs;
    return since >= patience;
  }
};

}  // namespace coldframe::temporal
