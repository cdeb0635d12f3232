#include "common/torch/precision.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "common/cli/cli.h"
#include "common/system/gpu_libraries.h"

namespace coldframe {

namespace {

constexpr torch::ScalarType kScalarTypes[] = {
    torch::kUInt8,   torch::kInt8,     torch::kUInt16,  torch::kInt16,
    torch::kUInt32,  torch::kInt32,    torch::kUInt64,  torch::kInt64,
    torch::kFloat16, torch::kBFloat16, torch::kFloat32, torch::kFloat64};  // in the order of DType

// float32 on the CPU. On a GPU bfloat16 where its tensor cores have it (Ampere, 8.0, and later),
// float16 on older ones.
Precision automatic(const torch::Device& device) {
  if (!device.is_cuda()) return Precision::kFp32;
  return cuda_driver::compute_capability(device.index()) >= 80 ? Precision::kBf16
                                                               : Precision::kFp16;
}

}  // namespace

Precision parse_precision(const std::string& word, const torch::Device& device) {
  const auto asked = choice<std::optional<Precision>>("precision", word,
                                                      {{"auto", std::nullopt},
                                                       {"fp32", Precision::kFp32},
                                                       {"bf16", Precision::kBf16},
                                                       {"fp16", Precision::kFp16}});
  return asked ? *asked : automatic(device);
}

std::string to_string(Precision precision) {
  return precision == Precision::kBf16 ? "bf16" : precision == Precision::kFp16 ? "fp16" : "fp32";
}

torch::ScalarType scalar_type(DType type) {
  return kScalarTypes[static_cast<std::size_t>(type)];
}

DType dtype_of(torch::ScalarType type) {
  const auto* const found = std::ranges::find(kScalarTypes, type);
  TORCH_INTERNAL_ASSERT(found != std::end(kScalarTypes));
  return static_cast<DType>(found - kScalarTypes);
}

std::vector<double> doubles(const torch::Tensor& tensor) {
  const torch::Tensor values = tensor.detach().cpu().to(torch::kFloat64).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

}  // namespace coldframe
