// The perceptron of a block: fc2(norm(act(fc1(x)))), or with a gate fc2(norm(act(g) · v)), where g
// and v are the halves of fc1(x) (SwiGLU, Shazeer 2020, arXiv:2002.05202; timm's layers/mlp.py).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/layers/linear.h"
#include "extract/vit/layers/norm.h"

namespace coldframe::vit {

struct MlpImpl : torch::nn::Module {
  MlpImpl(const Scope& scope, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& x);  // [B, tokens, width] -> the same

  Activation activation;
  bool gated;
  Linear fc1, fc2;
  Norm norm{nullptr};  // with mlp_norm (sub-LN)
};
TORCH_MODULE(Mlp);

}  // namespace coldframe::vit
