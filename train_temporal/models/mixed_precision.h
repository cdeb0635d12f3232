// Matrix products in half precision while weights, sums and losses stay float32, as LibTorch's
// autocast decides for each operation (docs.pytorch.org, "Automatic Mixed Precision").
#pragma once

#include "common/torch/tensor.h"

namespace coldframe::temporal {

struct MixedPrecision {
  torch::ScalarType type = torch::kFloat32;  // float32: none; bfloat16 or float16
  double gradient_scale = 1;  // of what flows back through half precision, against underflow

  bool active() const { return type != torch::kFloat32; }
};

// Autocast on this thread while it lives, without LibTorch's cache of the half-precision copies of
// weights. That cache is one for all threads, and the first thread that leaves autocast empties it:
// a fit's bytes would depend on the fits beside it. And a copy that was made without a graph has no
// way back to its weight: what runs again with a graph would take it, and the weight would get no
// gradient, without a word.
class Autocast {
 public:
  Autocast(const MixedPrecision& precision, const torch::Device& device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool active_;
  torch::DeviceType device_;
  bool cached_;  // before
};

// In autocast a copy in its type, for a weight that is taken at every frame: autocast would make
// one for each. Else the weight itself.
torch::Tensor cast_once(const torch::Tensor& weight);

// Back in float32; the gradient is scaled on its way to what comes before.
torch::Tensor leave_mixed_precision(const torch::Tensor& outputs, const MixedPrecision& precision);

}  // namespace coldframe::temporal
