// Counts a ViT's parameters, and those that are trained.
#pragma once

#include <cstdint>

#include "train_temporal/tune/chain_shape.h"

namespace coldframe::plan {

struct ParameterCount {
  std::uint64_t all = 0, trained = 0;  // LoRA's own are in `trained` alone
};
ParameterCount count_parameters(const tune::ChainShape& shape);

}  // namespace coldframe::plan
