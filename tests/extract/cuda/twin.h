// The CPU twin of every kernel: the same arithmetic (rows.h), row after row on one thread. For
// tests, not for speed.
#pragma once

#include "extract/cuda/kernels.h"

namespace coldframe::cuda {

const GpuKernels& twin_kernels();

}  // namespace coldframe::cuda
