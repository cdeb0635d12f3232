// Dropout of tokens whose mask is drawn again on the way back, so that no graph keeps it: as large
// as a step's output, it would be the largest part of what a step saves.
#pragma once

#include <cstdint>
#include <span>

#include "common/torch/tensor.h"
#include "train_temporal/models/dropout.h"

namespace coldframe::tune {

// tokens [n, tokens, D]; keys [n]
torch::Tensor redrawn_dropout(const torch::Tensor& tokens, const temporal::Dropout& dropout,
                              temporal::RandomPurpose layer, std::span<const std::uint64_t> keys);

}  // namespace coldframe::tune
