// The constants with which a model standardises its inputs.
#pragma once

#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

// The constants come from the frames of a training part's exams, in the view `clean`.
struct InputStatistics {
  torch::Tensor feature_mean, feature_std;  // [D]
  torch::Tensor time_mean, time_std;        // [2]: log interval, seconds since the first frame
  torch::Tensor clock_mean, clock_std;      // [F]
};
// Deviations are floored (features: at a hundredth of their mean over features), so that what was
// constant in training cannot blow up elsewhere.
InputStatistics input_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams);

}  // namespace coldframe::temporal
