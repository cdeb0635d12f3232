// The libraries with CUDA code, which lie beside the program and are opened when a CUDA device
// computes, so that one program runs with and without CUDA's own libraries.
#pragma once

#include "extract/cuda/kernels.h"

namespace coldframe::cuda {

// Symbol `name` of `library` (a file's name); null where the build had no CUDA compiler, or the
// library does not load here.
void* find_in_library(const char* library, const char* name);

// Of libcoldframe_cuda.so; null likewise.
const Kernels* kernels();

}  // namespace coldframe::cuda
