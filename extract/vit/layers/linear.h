// The matrix product of every layer, patch embedding included: the one place to make it faster.
#pragma once

#include "common/torch/tensor.h"
#include "extract/vit/weight_source.h"

namespace coldframe::vit {

// x [..., in] · weight [out, in]ᵀ + bias [out]; `bias` may be undefined.
torch::Tensor apply_linear(const torch::Tensor& x, const torch::Tensor& weight,
                           const torch::Tensor& bias);

struct LinearImpl : torch::nn::Module {
  LinearImpl(const Scope& scope, std::int64_t in, std::int64_t out, bool with_bias = true);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight, bias;
  // Trained beside a frozen weight: lora_scale · up · down is added to it (LoRA, Hu et al. 2021,
  // arXiv:2106.09685). down [rank, in], up [out, rank]; undefined: nothing is.
  torch::Tensor lora_down, lora_up;
  double lora_scale = 1;
};
TORCH_MODULE(Linear);

}  // namespace coldframe::vit
