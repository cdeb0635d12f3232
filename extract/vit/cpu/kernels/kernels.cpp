#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> available;
  for (const Kernels* kernels :
       {avx2_kernels(), avx512_kernels(), avx512_bf16_kernels(), avx512_fp16_kernels()})
    if (kernels) available.push_back(kernels);
  return available;
}

const Kernels* fastest_fp32_kernels() {
  const Kernels* const kernels = avx512_kernels();
  return kernels ? kernels : avx2_kernels();
}

}  // namespace coldframe::vit::cpu
