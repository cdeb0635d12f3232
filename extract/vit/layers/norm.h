// The norm over the last dimension. LayerNorm (Ba et al. 2016, arXiv:1607.06450), or RMSNorm (Zhang
// and Sennrich 2019, arXiv:1910.07467), which neither centres nor has a bias. timm's epsilon is
// 1e-6 where a model does not say otherwise; torch's own default is 1e-5.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/weight_source.h"

namespace coldframe::vit {

struct NormImpl : torch::nn::Module {
  NormImpl(const Scope& scope, std::int64_t width, const Architecture& architecture);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width] -> the same

  double epsilon;
  torch::Tensor weight, bias;  // no bias: RMSNorm
};
TORCH_MODULE(Norm);

}  // namespace coldframe::vit
