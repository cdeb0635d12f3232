// The constants with which a model standardises its inputs.
#pragma once

#include <limits>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/changes.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

// The constants come from the frames of a training part's exams, in the view `clean`.
struct InputStatistics {
  torch::Tensor feature_mean, feature_std;  // [D], or as many as `inputs` make of them
  torch::Tensor time_mean, time_std;        // [3] of the values in TimeColumn
  torch::Tensor clock_mean, clock_std;      // [F]
};
// Features that are standardised by this deviation are too small to change any sum that they are
// added to: so `blank` models see times, mask and length alone.
inline constexpr float kBlankDeviation = std::numeric_limits<float>::max();

// Deviations are floored (features: at a hundredth of their mean over features), so that what was
// constant in training cannot blow up elsewhere. A stream that no exam of the training part has is
// blank, and whether it is there, too: nothing was learnt of it.
InputStatistics input_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams,
                                 Inputs inputs = Inputs::kLevel);

}  // namespace coldframe::temporal
