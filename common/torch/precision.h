// The number type in which a model computes; results are float32 at every public boundary.
#pragma once

#include <string>
#include <vector>

#include "common/numbers/dtype.h"
#include "common/torch/tensor.h"

namespace coldframe {

using Precision = DType;  // kFp32, kBf16 or kFp16

Precision parse_precision(const std::string& word, const torch::Device& device);  // also "auto"
std::string to_string(Precision precision);  // "fp32", "bf16", "fp16"
torch::ScalarType scalar_type(DType type);
DType dtype_of(torch::ScalarType type);  // of one that a DType stands for

// The values of a tensor on any device, in row-major order.
std::vector<double> doubles(const torch::Tensor& tensor);

}  // namespace coldframe
