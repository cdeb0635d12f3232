#include "extract/cuda/kernels.h"

#include <cuda_runtime.h>

#include "extract/cuda/dispatch.h"

namespace coldframe::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 16;

unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t wanted = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
}

// A thread of the warp that computes a row.
struct Warp {
  static constexpr int kHeld = 1;

  __device__ int lane(int) const { return threadIdx.x % kLanes; }
  __device__ float sum(const float (&partial)[1]) const {
    float total = partial[0];
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2)
      total += __shfl_xor_sync(0xffffffffu, total, step);
    return total;
  }
};

template <typename Residual, typename Element, int kSteps, typename Arguments>
__global__ void __launch_bounds__(kThreads)
    norm_kernel(const __grid_constant__ Arguments arguments, std::int64_t rows) {
  constexpr int kRows = kThreads / kLanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kRows;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kLanes;
       row < rows; row += step)
    norm_row<kSteps>(Warp(), row_of<Residual, Element>(arguments, row),
                     static_cast<int>(arguments.width));
}

template <typename Arguments>
int launch_norm(const Arguments& a, std::int64_t rows, void* stream) {
  if (rows == 0) return cudaSuccess;
  return with_residual(a.residual, a.element, [&](auto residual, auto element) {
    return with_steps(a.width, [&](auto steps) {
      norm_kernel<typename decltype(residual)::type, typename decltype(element)::type,
                  decltype(steps)::value, Arguments>
          <<<blocks_for(rows, kThreads / kLanes), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
              a, rows);
      return static_cast<int>(cudaGetLastError());
    });
  });
}

int residual_norm(const ResidualNormArguments& arguments, void* stream) {
  return launch_norm(arguments, arguments.rows, stream);
}

int embed_norm(const EmbedNormArguments& arguments, void* stream) {
  return launch_norm(arguments, arguments.batch * arguments.tokens, stream);
}

constexpr int kColumnThreads = 32, kRowThreads = kThreads / kColumnThreads;

// A thread keeps its columns, and their bias in registers, and goes from row to row.
template <typename F, typename Element>
__global__ void __launch_bounds__(kThreads)
    activation_kernel(const __grid_constant__ ActivationArguments a) {
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x) * kActivationVector;
  if (column >= a.width) return;
  const ActivationFloats bias = bias_at(a.bias, column);
  const ActivationFloats values_bias = bias_at(a.gated ? a.bias : nullptr, a.width + column);
  const std::int64_t stride = a.gated ? 2 * a.width : a.width;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kRowThreads;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kRowThreads + threadIdx.y;
       row < a.rows; row += step) {
    const Element* const x = static_cast<const Element*>(a.x) + row * stride + column;
    activate_vector<F>(x, bias, a.gated ? x + a.width : nullptr, values_bias,
                       static_cast<Element*>(a.out) + row * a.width + column);
  }
}

int activation(const ActivationArguments& a, void* stream) {
  if (a.width % kActivationVector != 0) return kInvalidValue;
  if (a.rows == 0) return cudaSuccess;
  // Four rows to a thread: enough blocks for every device, and the bias is read a fourth as often.
  constexpr std::int64_t kRowsOfThread = 4, kMaxRowBlocks = 65535;
  const std::int64_t wanted = blocks_for(a.rows, kRowThreads * kRowsOfThread);
  const dim3 grid(blocks_for(a.width / kActivationVector, kColumnThreads),
                  static_cast<unsigned>(wanted < kMaxRowBlocks ? wanted : kMaxRowBlocks));
  return with_element(a.element, [&](auto element) {
    return with_function(a.function, [&](auto function) {
      activation_kernel<typename decltype(function)::type, typename decltype(element)::type>
          <<<grid, dim3(kColumnThreads, kRowThreads), 0, static_cast<cudaStream_t>(stream)>>>(a);
      return static_cast<int>(cudaGetLastError());
    });
  });
}

template <int kRun, typename Element>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(const __grid_constant__ RotateArguments arguments, std::uint32_t runs) {
  const std::uint64_t step = gridDim.x * kThreads;
  for (std::uint64_t run = blockIdx.x * kThreads + threadIdx.x; run < runs; run += step)
    rotate_run<kRun, Element>(arguments, static_cast<std::uint32_t>(run));
}

int rotate(const RotateArguments& a, void* stream) {
  return with_run(a, [&](auto run, std::int64_t pairs) {
    if (pairs == 0) return static_cast<int>(cudaSuccess);
    return with_element(a.element, [&](auto element) {
      constexpr int kRun = decltype(run)::value;
      const auto runs = static_cast<std::uint32_t>(pairs / kRun);
      rotate_kernel<kRun, typename decltype(element)::type>
          <<<blocks_for(runs, kThreads), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(a, runs);
      return static_cast<int>(cudaGetLastError());
    });
  });
}

template <int kRun, typename Element>
__global__ void __launch_bounds__(kThreads)
    patch_kernel(const __grid_constant__ PatchArguments arguments, std::uint32_t runs) {
  __shared__ float levels[3 * 256];
  for (int i = threadIdx.x; i < 3 * 256; i += kThreads) levels[i] = arguments.levels[i];
  __syncthreads();
  const std::uint32_t step = gridDim.x * kThreads;
  for (std::uint32_t run = blockIdx.x * kThreads + threadIdx.x; run < runs; run += step)
    patch_run<kRun, Element>(arguments, levels, run);
}

int patches(const PatchArguments& a, void* stream) {
  if (a.batch == 0) return cudaSuccess;
  return with_run(a, [&](auto run) {
    return with_element(a.element, [&](auto element) {
      constexpr int kRun = decltype(run)::value;
      const auto runs = static_cast<std::uint32_t>(a.batch * a.size * a.size / kRun);
      // Each block fills its table of levels first: let it have some runs to do with it.
      constexpr std::int64_t kRunsOfThread = 4;
      patch_kernel<kRun, typename decltype(element)::type>
          <<<blocks_for(runs, kThreads * kRunsOfThread), kThreads, 0,
             static_cast<cudaStream_t>(stream)>>>(a, runs);
      return static_cast<int>(cudaGetLastError());
    });
  });
}

constexpr GpuKernels kKernels{patches, embed_norm, residual_norm, activation, rotate};

}  // namespace
}  // namespace coldframe::cuda

const coldframe::cuda::GpuKernels* coldframe_cuda_kernels() {
  return &coldframe::cuda::kKernels;
}
