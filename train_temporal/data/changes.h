// Inputs that show change: each frame's features beside those of the sequence's first frame and of
// the frame before. Where the level of a feature differs between patients and its change is small,
// a model that sees levels alone has to find the difference of two large numbers.
#pragma once

#include <cstdint>

#include "common/text/word_table.h"
#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"

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

}  // namespace coldframe::temporal
