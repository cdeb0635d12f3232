// Operations whose way back needs little memory at once, with LibTorch's own formulas and so the
// same bits. Autograd's hold all that a node has saved until it returns, and make each gradient
// anew.
#pragma once

#include <string>

#include "common/torch/tensor.h"

namespace coldframe::tune {

// x [..., in] · weight [out, in]ᵀ + bias [out], or undefined. The weight's gradient comes first;
// then what it needs, x, goes, before x's gradient is made.
torch::Tensor frugal_linear(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias);
// at::gelu(x, approximate). The gradient becomes that of x in its place.
torch::Tensor frugal_gelu(const torch::Tensor& x, const std::string& approximate);

// It is the whole of its memory, which no other tensor shares.
bool has_its_own_memory(const torch::Tensor& tensor);

}  // namespace coldframe::tune
