#include <bit>

#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
namespace {

constexpr int kVectorBytes = 64;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"

}  // namespace
#pragma GCC pop_options

const Kernels* avx512_kernels() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has) return nullptr;
  static const Kernels kernels =
      make_kernels<float, 12, 2>("AVX-512 fp32", multiply<12, 2, FloatProduct>);
  return &kernels;
}

#else

const Kernels* avx512_kernels() {
  return nullptr;
}

#endif

}  // namespace coldframe::vit::cpu
