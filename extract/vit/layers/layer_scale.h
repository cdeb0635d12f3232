// LayerScale (Touvron et al. 2021, arXiv:2103.17239): a learnt factor per feature at the end of
// each residual branch.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/weight_source.h"

namespace coldframe::vit {

struct LayerScaleImpl : torch::nn::Module {
  LayerScaleImpl(const Scope& scope, std::int64_t width);
  torch::Tensor forward(const torch::Tensor& x);  // [..., width] -> the same

  torch::Tensor gamma;
};
TORCH_MODULE(LayerScale);

}  // namespace coldframe::vit
