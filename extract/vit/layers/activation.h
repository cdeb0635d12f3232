// The function between the two products of a perceptron.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"

namespace coldframe::vit {

// GELU as erf states it or by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415), x·σ(1.702·x)
// (OpenAI's CLIP), or SiLU, x·σ(x).
torch::Tensor activate(const torch::Tensor& x, Activation activation);

}  // namespace coldframe::vit
