#include "extract/cuda/normalize.h"

#include <cuda_runtime.h>

namespace {

// One thread per pixel: three neighbouring bytes in, one value to each colour plane. The table
// carries the arithmetic, so that the result equals the CPU's bit for bit.
__global__ void normalize_kernel(const std::uint8_t* __restrict__ in,
                                 const float* __restrict__ table, float* __restrict__ out,
                                 std::int64_t pixels, std::int64_t plane) {
  __shared__ float levels[3 * 256];
  for (int i = threadIdx.x; i < 3 * 256; i += blockDim.x) levels[i] = table[i];
  __syncthreads();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < pixels; i += step) {
    const std::int64_t image = i / plane, position = i - image * plane;
#pragma unroll
    for (int channel = 0; channel < 3; ++channel) {
      out[(image * 3 + channel) * plane + position] = levels[channel * 256 + in[i * 3 + channel]];
    }
  }
}

}  // namespace

int coldframe_normalize(const std::uint8_t* in, const float* table, float* out, std::int64_t batch,
                        std::int64_t size, void* stream) {
  constexpr std::int64_t kThreads = 256, kMostBlocks = 4096;
  const std::int64_t pixels = batch * size * size;
  if (pixels == 0) return cudaSuccess;
  const std::int64_t wanted = (pixels + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  normalize_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(in, table, out,
                                                                               pixels, size * size);
  return cudaGetLastError();
}
