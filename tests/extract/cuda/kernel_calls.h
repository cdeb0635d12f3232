// The kernels' arguments filled from tensors, for a table of kernels on any device.
#pragma once

#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/cuda/kernels.h"

namespace coldframe::cuda {

inline const float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

// All on one device; `gamma` and `y_bias` may be undefined.
struct NormInputs {
  torch::Tensor x, y, y_bias, gamma, weight, bias;  // [rows, width], …, [width], …
  float epsilon = 1e-6f;
  bool centred = true;
};

inline torch::Tensor residual_norm(const GpuKernels& kernels, const NormInputs& in) {
  torch::Tensor z = torch::full_like(in.y, 77);
  const ResidualNormArguments arguments{
      in.x.const_data_ptr(),
      in.y.const_data_ptr(),
      floats(in.y_bias),
      floats(in.gamma),
      {floats(in.weight), floats(in.bias), in.epsilon, in.centred},
      in.x.data_ptr(),
      z.data_ptr(),
      in.x.size(0),
      in.x.size(1),
      dtype_of(in.x.scalar_type()),
      dtype_of(in.y.scalar_type())};
  TORCH_CHECK(kernels.residual_norm(arguments, nullptr) == 0);
  return z;
}

struct Embedded {
  torch::Tensor x, z;  // [batch · tokens, width]
};

// start [tokens, width], y [batch · (tokens − prefix), width]
inline Embedded embed_norm(const GpuKernels& kernels, const torch::Tensor& start,
                           const torch::Tensor& y, std::int64_t prefix, const torch::Tensor& weight,
                           const torch::Tensor& bias, torch::ScalarType residual) {
  const std::int64_t tokens = start.size(0), width = start.size(1);
  const std::int64_t batch = y.size(0) / (tokens - prefix);
  Embedded out{torch::full({batch * tokens, width}, 77, y.options().dtype(residual)),
               torch::full({batch * tokens, width}, 77, y.options())};
  const EmbedNormArguments arguments{floats(start),
                                     y.const_data_ptr(),
                                     {floats(weight), floats(bias), 1e-6f, true},
                                     out.x.data_ptr(),
                                     out.z.data_ptr(),
                                     batch,
                                     tokens,
                                     prefix,
                                     width,
                                     dtype_of(residual),
                                     dtype_of(y.scalar_type())};
  TORCH_CHECK(kernels.embed_norm(arguments, nullptr) == 0);
  return out;
}

// `bias` may be undefined.
inline torch::Tensor activation(const GpuKernels& kernels, Function function, bool gated,
                                const torch::Tensor& x, const torch::Tensor& bias) {
  const std::int64_t width = gated ? x.size(1) / 2 : x.size(1);
  torch::Tensor out = gated ? torch::full({x.size(0), width}, 77, x.options()) : x.clone();
  const void* const in = gated ? x.const_data_ptr() : out.const_data_ptr();  // in place
  TORCH_CHECK(kernels.activation({in, floats(bias), out.data_ptr(), x.size(0), width, function,
                                  gated, dtype_of(x.scalar_type())},
                                 nullptr) == 0);
  return out;
}

// x [batch, tokens, width], of which the first `heads` heads are turned; sine and cosine [tables,
// tokens − prefix, half].
inline torch::Tensor rotate(const GpuKernels& kernels, const torch::Tensor& x,
                            const torch::Tensor& sine, const torch::Tensor& cosine,
                            std::int64_t heads) {
  torch::Tensor out = x.clone();
  TORCH_CHECK(kernels.rotate({out.data_ptr(), floats(sine), floats(cosine), x.size(0), x.size(1),
                              x.size(1) - sine.size(1), x.size(2), heads, sine.size(2),
                              sine.size(0), dtype_of(x.scalar_type())},
                             nullptr) == 0);
  return out;
}

// frames [batch, size, size, 3] -> [batch · grid², pitch]; columns behind the patch stay 77.
inline torch::Tensor patches(const GpuKernels& kernels, const torch::Tensor& frames,
                             const torch::Tensor& levels, std::int64_t patch, std::int64_t pitch,
                             torch::ScalarType type) {
  const std::int64_t batch = frames.size(0), size = frames.size(1), grid = size / patch;
  torch::Tensor out = torch::full({batch * grid * grid, pitch}, 77, levels.options().dtype(type));
  TORCH_CHECK(kernels.patches({frames.const_data_ptr<std::uint8_t>(), floats(levels),
                               out.data_ptr(), batch, size, patch, pitch, dtype_of(type)},
                              nullptr) == 0);
  return out;
}

}  // namespace coldframe::cuda
