#include <bit>

#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace {

constexpr int kVectorBytes = 32;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"

}  // namespace
#pragma GCC pop_options

const Kernels* avx2_kernels() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!has) return nullptr;
  static const Kernels kernels =
      make_kernels<float, 6, 2>("AVX2 fp32", multiply<6, 2, FloatProduct>);
  return &kernels;
}

#else

const Kernels* avx2_kernels() {
  return nullptr;
}

#endif

}  // namespace coldframe::vit::cpu
