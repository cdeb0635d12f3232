#include "extract/vit/cpu/kernels.h"

namespace coldframe::vit::cpu {

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> available;
  for (const Kernels* kernels :
       {&portable_kernels(StoredType::kFp32), avx2_kernels(), avx512_kernels(),
        &portable_kernels(StoredType::kBf16), avx512_bf16_kernels(), avx512_fp16_kernels()})
    if (kernels) available.push_back(kernels);
  return available;
}

const Kernels& fastest_fp32_kernels() {
  if (const Kernels* kernels = avx512_kernels()) return *kernels;
  if (const Kernels* kernels = avx2_kernels()) return *kernels;
  return portable_kernels(StoredType::kFp32);
}

}  // namespace coldframe::vit::cpu
