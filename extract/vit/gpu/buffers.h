// The memory that a forward pass computes in.
#pragma once

#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::vit::gpu {

// Hands out tensors, and reuses the memory of those that nobody refers to any more. Later passes of
// one shape therefore allocate nothing. All work on the tensors runs on one stream.
class Buffers {
 public:
  explicit Buffers(const torch::Device& device) : device_(device) {}

  torch::Tensor take(torch::IntArrayRef sizes, torch::ScalarType type);
  void clear() { all_.clear(); }

 private:
  torch::Device device_;
  std::vector<torch::Tensor> all_;  // [bytes] uint8
};

}  // namespace coldframe::vit::gpu
