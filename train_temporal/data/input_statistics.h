// Inputs that show change: each frame's features beside those of the sequence's first frame and of
// the frame before. Where the level of a feature differs between patients and its change is small,
// a model that sees levels alone has to find the difference of two large numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "common/text/spelling.h"
#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

enum class Inputs {
  kLevel,   // the features, [D]
  kChange,  // their differences from the first frame and from the frame before, [2 D]
  kBoth,    // all three, [3 D]
};
inline const WordTable<Inputs> kInputs{
    {"level", Inputs::kLevel}, {"change", Inputs::kChange}, {"both", Inputs::kBoth}};

// How many times D they are.
constexpr std::int64_t parts_of(Inputs inputs) {
  return inputs == Inputs::kLevel ? 1 : inputs == Inputs::kChange ? 2 : 3;
}

// features: [N, D], packed as the batch says. Returns [N, parts · D]. The first frame differs from
// nothing: its differences are 0.
torch::Tensor with_changes(const torch::Tensor& features, const PackedBatch& batch, Inputs inputs);

// The constants with which a model standardises its inputs.

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
