#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "extract/vit/cpu/kernels/kernels.h"

namespace coldframe::vit::cpu {

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")
namespace {

constexpr int kVectorBytes = 64;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"

// VDPBF16PS: both products of a word's pair added in one instruction.
struct Bf16PairProduct {
  static Float add(Float sums, Float a, Float b) {
    return reinterpret_cast<Float>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums),
                                                    reinterpret_cast<__m512bh>(a),
                                                    reinterpret_cast<__m512bh>(b)));
  }
};

}  // namespace
#pragma GCC pop_options

const Kernels* avx512_bf16_kernels() {
  static const bool has = avx512_kernels() && __builtin_cpu_supports("avx512bf16");
  if (!has) return nullptr;
  static const Kernels kernels =
      make_kernels<std::uint16_t, 12, 2>("AVX-512 bf16", multiply<12, 2, Bf16PairProduct>);
  return &kernels;
}

#else

const Kernels* avx512_bf16_kernels() {
  return nullptr;
}

#endif

}  // namespace coldframe::vit::cpu
