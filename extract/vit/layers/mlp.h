// The two-layer perceptron of a block, with the exact (erf) GELU.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"

namespace coldframe::vit {

struct MlpImpl : torch::nn::Module {
  MlpImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& x);  // [B, tokens, width] -> the same

  Linear fc1, fc2;
};
TORCH_MODULE(Mlp);

}  // namespace coldframe::vit
