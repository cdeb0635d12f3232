#include "extract/cuda/library.h"

namespace coldframe::cuda {

const KernelLibrary& kernel_library() {
  static const KernelLibrary library = [] {
    KernelLibrary loaded;
    using Get = decltype(&coldframe_cuda_kernels);
    const auto get = reinterpret_cast<Get>(
        find_in_library("libcoldframe_cuda.so", "coldframe_cuda_kernels", loaded.problem));
    loaded.kernels = get ? get() : nullptr;
    return loaded;
  }();
  return library;
}

}  // namespace coldframe::cuda
