// Stops when the validation part has not done better for a while. A plain value, so that a
// checkpoint can hold it.
#pragma once

#include <cstddef>
#include <limits>

#include "common/text/word_table.h"

namespace coldframe::temporal {

// What early stopping compares: the higher figure, and of equal figures the lower loss.
enum class StoppingMetric {
  kLoss,    // figures are 0 throughout
  kMetric,  // see validation_figure()
};
inline const WordTable<StoppingMetric> kStoppingMetrics{{"loss", StoppingMetric::kLoss},
                                                        {"metric", StoppingMetric::kMetric}};

struct EarlyStop {
  std::size_t patience = 10;  // epochs without improvement after which to stop; 0 never stops
  bool blind = false;         // the validation part cannot tell epochs apart: the last one is kept

  double best_figure = -std::numeric_limits<double>::max();
  double best_loss = std::numeric_limits<double>::infinity();
  std::size_t best_epoch = 0;  // counted from 0, as are the calls of update()
  std::size_t epochs = 0;      // losses seen

  // True when this epoch, of finite numbers, is the best so far: keep these weights.
  bool update(double loss, double figure = 0) {
    const bool improved =
        blind || figure > best_figure || (figure == best_figure && loss < best_loss);
    if (improved) {
      best_figure = figure;
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
