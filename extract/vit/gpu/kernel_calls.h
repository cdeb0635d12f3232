// Arguments of extract/cuda's kernels.
#pragma once

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <optional>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/precision.h"
#include "extract/cuda/kernels.h"
#include "extract/vit/layers.h"

namespace coldframe::vit::gpu {

inline const float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

inline cuda::NormFactors factors_of(const NormImpl& layer) {
  return {floats(layer.weight), floats(layer.bias), static_cast<float>(layer.epsilon),
          layer.bias.defined()};
}

// Nothing for an activation that no kernel computes.
inline std::optional<cuda::Function> function_of(Activation activation) {
  constexpr std::pair<Activation, cuda::Function> kKnown[] = {
      {Activation::kGelu, cuda::Function::kGelu},
      {Activation::kGeluTanh, cuda::Function::kGeluTanh},
      {Activation::kQuickGelu, cuda::Function::kQuickGelu},
      {Activation::kSilu, cuda::Function::kSilu}};
  for (const auto& [name, function] : kKnown)
    if (name == activation) return function;
  return std::nullopt;
}

inline void* stream_of(const torch::Device& device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

inline void check(int error) {
  if (error == 0) return;
  if (error == cuda::kOutOfMemory)  // code is loaded to the device with its first use
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "no memory for a kernel");
  throw SystemError(concat("a CUDA kernel of the ViT failed with error ", error,
                           "; run with --device cpu, or check the driver with nvidia-smi"));
}

}  // namespace coldframe::vit::gpu
