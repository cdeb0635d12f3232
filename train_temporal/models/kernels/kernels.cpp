#include "train_temporal/models/kernels/kernels.h"

#include <vector>

namespace coldframe::temporal {

std::span<const SequenceKernels* const> all_kernels() {
  static const std::vector<const SequenceKernels*> all = [] {
    std::vector<const SequenceKernels*> found = {&plain_kernels()};
    if (avx2_kernels() != nullptr) found.push_back(avx2_kernels());
    if (avx512_kernels() != nullptr) found.push_back(avx512_kernels());
    return found;
  }();
  return all;
}

const SequenceKernels& kernels() {
  static const SequenceKernels& fastest = *all_kernels().back();
  return fastest;
}

}  // namespace coldframe::temporal
