#include "extract/cuda/library.h"

#include <dlfcn.h>

#include <filesystem>

namespace coldframe::cuda {

void* find_in_library(const char* library, const char* name) {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  // Test programs lie in build/tests, the libraries in build/bin.
  for (const auto& path : {folder / library, folder.parent_path() / "bin" / library})
    if (void* opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return dlsym(opened, name);
  return nullptr;
}

const Kernels* kernels() {
  static const Kernels* const found = [] {
    using Get = decltype(&coldframe_cuda_kernels);
    const auto get =
        reinterpret_cast<Get>(find_in_library("libcoldframe_cuda.so", "coldframe_cuda_kernels"));
    return get ? get() : nullptr;
  }();
  return found;
}

}  // namespace coldframe::cuda
