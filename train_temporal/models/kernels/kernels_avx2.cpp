// The kernels in AVX2.
#include "train_temporal/models/kernels/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>
#include <utility>

#pragma GCC target("avx2,fma,f16c")

namespace coldframe::temporal {
namespace {

struct Vector {
  using F = __m256;
  static constexpr std::int64_t kWidth = 8;
  static constexpr int kTileRows = 4;

  static __m256i mask(std::int64_t n) {
    const __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), position);
  }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static F load_first(const float* p, std::int64_t n) { return _mm256_maskload_ps(p, mask(n)); }
  static F load(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_first(const std::uint16_t* p, std::int64_t n) {
    std::uint16_t values[kWidth] = {};
    for (std::int64_t i = 0; i < n; ++i) values[i] = p[i];
    return load(values);
  }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static void store_first(float* p, F x, std::int64_t n) { _mm256_maskstore_ps(p, mask(n), x); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F sqrt(F a) { return _mm256_sqrt_ps(a); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F round(F a) {  // half to even
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F absolute(F a) { return _mm256_andnot_ps(set(-0.0f), a); }
  static F with_sign_of(F a, F b) { return _mm256_or_ps(a, _mm256_and_ps(set(-0.0f), b)); }
  static constexpr auto drop_block = drop_block_by_words;
  static F power_of_two(F n) {  // n whole, −126 … 127
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
};

#include "train_temporal/models/kernels/elementwise_body.h"

#include "train_temporal/models/kernels/multiply_body.h"

}  // namespace

const SequenceKernels* avx2_kernels() {
  static constexpr SequenceKernels table = table_of("avx2");
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("f16c");
  return has ? &table : nullptr;
}

}  // namespace coldframe::temporal

#else

namespace coldframe::temporal {

const SequenceKernels* avx2_kernels() {
  return nullptr;
}

}  // namespace coldframe::temporal

#endif
