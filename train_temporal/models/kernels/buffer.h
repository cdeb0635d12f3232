// Memory for floats that is taken once and kept: a step of the same size as the last allocates
// nothing. It comes from LibTorch's allocator, so that a memory budget counts it.
#pragma once

#include <cstdint>

#include "common/torch/tensor.h"

namespace coldframe::temporal {

class Buffer {
 public:
  // Room for n floats; what they hold is undefined.
  float* sized(std::int64_t n) {
    if (!tensor_.defined() || tensor_.numel() < n) tensor_ = torch::empty({n});
    return tensor_.data_ptr<float>();
  }
  float* zeroed(std::int64_t n) {
    float* values = sized(n);
    for (std::int64_t i = 0; i < n; ++i) values[i] = 0;
    return values;
  }
  float* data() const { return tensor_.data_ptr<float>(); }

 private:
  torch::Tensor tensor_;
};

}  // namespace coldframe::temporal
