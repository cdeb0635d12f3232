// LayerNorm over the last dimension, with timm's epsilon of 1e-6 (torch's own default is 1e-5).
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/weight_source.h"

namespace coldframe::vit {

struct LayerNormImpl : torch::nn::Module {
  LayerNormImpl(const Scope& scope, std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width] -> the same

  torch::Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

}  // namespace coldframe::vit
