// The kernels in AVX-512.
#include "train_temporal/models/kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>
#include <utility>

// GCC 12 takes the undefined operand of its own unmasked intrinsics for a mistake of ours (PR
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")

namespace coldframe::temporal {
namespace {

struct Vector {
  using F = __m512;
  static constexpr std::int64_t kWidth = 16;
  static constexpr int kTileRows = 8;

  static __mmask16 mask(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static F load_first(const float* p, std::int64_t n) { return _mm512_maskz_loadu_ps(mask(n), p); }
  static F load(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static F load_first(const std::uint16_t* p, std::int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask(n), p));
  }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static void store_first(float* p, F x, std::int64_t n) { _mm512_mask_storeu_ps(p, mask(n), x); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F sqrt(F a) { return _mm512_sqrt_ps(a); }
  static F min(F a, F b) { return _mm512_min_ps(a, b); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }
  static F round(F a) { return _mm512_roundscale_ps(a, 0); }  // half to even
  static F absolute(F a) { return _mm512_andnot_ps(set(-0.0f), a); }
  static F with_sign_of(F a, F b) { return _mm512_or_ps(a, _mm512_and_ps(set(-0.0f), b)); }
  static void drop_block(std::uint64_t start, std::uint16_t threshold, float scale, float* out) {
    const __m512i steps = _mm512_set_epi64(28, 24, 20, 16, 12, 8, 4, 0);
    __m512i x = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(start)), steps);
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)),
                           _mm512_set1_epi64(static_cast<long long>(kMixFactors[0])));
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)),
                           _mm512_set1_epi64(static_cast<long long>(kMixFactors[1])));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
    const __mmask32 kept =
        _mm512_cmpge_epu16_mask(x, _mm512_set1_epi16(static_cast<short>(threshold)));
    store(out, _mm512_maskz_mov_ps(static_cast<__mmask16>(kept), set(scale)));
    store(out + 16, _mm512_maskz_mov_ps(static_cast<__mmask16>(kept >> 16), set(scale)));
  }
  static F power_of_two(F n) {  // n whole, −126 … 127
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
};

#include "train_temporal/models/kernels/elementwise_body.h"

#include "train_temporal/models/kernels/multiply_body.h"

}  // namespace

const SequenceKernels* avx512_kernels() {
  static constexpr SequenceKernels table = table_of("avx512");
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("fma");
  return has ? &table : nullptr;
}

}  // namespace coldframe::temporal

#else

namespace coldframe::temporal {

const SequenceKernels* avx512_kernels() {
  return nullptr;
}

}  // namespace coldframe::temporal

#endif
