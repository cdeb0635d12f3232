// A norm's parameters, as the kernels take them.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/cpu/kernels/kernels.h"
#include "extract/vit/layers.h"

namespace coldframe::vit::cpu {

struct NormWeights {
  // Undefined weight: no norm. Undefined bias: RMSNorm.
  NormWeights(const torch::Tensor& with_weight, const torch::Tensor& with_bias, double with_epsilon)
      : epsilon(static_cast<float>(with_epsilon)), centred(with_bias.defined()) {
    if (!with_weight.defined()) return;
    weight = with_weight.detach().to(torch::kCPU, torch::kFloat32).contiguous();
    bias = centred ? with_bias.detach().to(torch::kCPU, torch::kFloat32).contiguous()
                   : torch::zeros_like(weight);
  }
  // The layer may be empty.
  explicit NormWeights(const Norm& layer)
      : NormWeights(layer ? layer->weight : torch::Tensor(), layer ? layer->bias : torch::Tensor(),
                    layer ? layer->epsilon : 0) {}

  explicit operator bool() const { return weight.defined(); }
  NormFactors factors() const {
    return {weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), epsilon, centred};
  }

  torch::Tensor weight, bias;  // [width] float
  float epsilon;
  bool centred;
};

}  // namespace coldframe::vit::cpu
