// The library with the CUDA kernels, as common/system/gpu_libraries.h opens it.
#pragma once

#include <string>

#include "common/system/gpu_libraries.h"
#include "extract/cuda/kernels.h"

namespace coldframe::cuda {

struct KernelLibrary {
  const GpuKernels* kernels = nullptr;
  std::string problem;  // why there are none
};
const KernelLibrary& kernel_library();  // libcoldframe_cuda.so
inline const GpuKernels* kernels() {
  return kernel_library().kernels;
}

}  // namespace coldframe::cuda
