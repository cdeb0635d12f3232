#include "train_temporal/kernels/kernels.h"

#include <vector>

namespace coldframe::temporal {

std::span<const Kernels* const> all_kernels() {
  static const std::vector<const Kernels*> all = [] {
    std::vector<const Kernels*> found = {&plain_kernels()};
    if (avx2_kernels() != nullptr) found.push_back(avx2_kernels());
    if (avx512_kernels() != nullptr) found.push_back(avx512_kernels());
    return found;
  }();
  return all;
}

const Kernels& kernels() {
  static const Kernels& fastest = *all_kernels().back();
  return fastest;
}

}  // namespace coldframe::temporal
