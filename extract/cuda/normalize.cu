#include <cuda_runtime.h>

#include "extract/cuda/normalize.h"

namespace {

// One thread per pixel: three neighbouring bytes in, one value to each colour plane. Division is
// IEEE-rounded and never contracted, so that the result equals the CPU's bit for bit.
__global__ void normalize_kernel(const std::uint8_t* __restrict__ in, float* __restrict__ out,
                                 std::int64_t pixels, std::int64_t plane,
                                 ColdframeNormalization constants) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < pixels; i += step) {
    const std::int64_t image = i / plane, position = i - image * plane;
#pragma unroll
    for (int channel = 0; channel < 3; ++channel) {
      const float scaled = __fdiv_rn(static_cast<float>(in[i * 3 + channel]), 255.0f);
      out[(image * 3 + channel) * plane + position] =
          __fdiv_rn(__fsub_rn(scaled, constants.mean[channel]), constants.std[channel]);
    }
  }
}

}  // namespace

int coldframe_normalize(const std::uint8_t* in, float* out, std::int64_t batch, std::int64_t size,
                        ColdframeNormalization constants, void* stream) {
  constexpr int kThreads = 256;
  const std::int64_t pixels = batch * size * size;
  if (pixels == 0) return cudaSuccess;
  const std::int64_t wanted = (pixels + kThreads - 1) / kThreads;
  const int blocks = static_cast<int>(wanted < 65535 ? wanted : 65535);
  normalize_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      in, out, pixels, size * size, constants);
  return cudaGetLastError();
}
