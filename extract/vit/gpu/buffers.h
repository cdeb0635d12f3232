// The memory that a forward pass computes in.
#pragma once

#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::vit::gpu {

// Tensors whose memory is taken again once nobody refers to it, so that each pass of a shape finds
// what the first one left. All work on it is of one stream.
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
