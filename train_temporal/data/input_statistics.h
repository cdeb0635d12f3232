// Change inputs: the differences of each frame's features from the sequence's first frame and from
// the previous frame. If a feature's level varies between patients and its change is small, a model
// that sees levels only has to learn the difference of two large numbers.
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
  kChange,  // differences from the first and from the previous frame, [2 D]
  kBoth,    // all three, [3 D]
};
inline const WordTable<Inputs> kInputs{
    {"level", Inputs::kLevel}, {"change", Inputs::kChange}, {"both", Inputs::kBoth}};

// Their width, in multiples of D.
constexpr std::int64_t parts_of(Inputs inputs) {
  return inputs == Inputs::kLevel ? 1 : inputs == Inputs::kChange ? 2 : 3;
}

// features: [N, D], packed like `batch`. Returns [N, parts · D]. The differences of the first frame
// are 0.
torch::Tensor with_changes(const torch::Tensor& features, const PackedBatch& batch, Inputs inputs);

// The constants with which a model standardises its inputs.

// They come from the frames of the training exams, in the view `clean`.
struct InputStatistics {
  torch::Tensor feature_mean, feature_std;  // [D · parts_of(inputs)]
  torch::Tensor time_mean, time_std;        // [3] of the values in TimeColumn
  torch::Tensor clock_mean, clock_std;      // [F]
};
// Features divided by this deviation are too small to change any sum. So `blank` models (null
// features) see only times, mask and length.
inline constexpr float kBlankDeviation = std::numeric_limits<float>::max();

// Deviations have a lower bound (features: 1 % of their mean over features), so that inputs that
// were constant in training cannot blow up elsewhere. A stream that no training exam has is
// blanked, and so is its presence flag: nothing was learnt of it.
InputStatistics input_statistics(const Dataset& dataset, const std::vector<std::size_t>& exams,
                                 Inputs inputs = Inputs::kLevel);

}  // namespace coldframe::temporal
