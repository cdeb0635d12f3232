#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "extract/vit/engine/kernels.h"

namespace coldframe::vit::engine {

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16,fma,prefer-vector-width=512")
namespace {

constexpr int kVectorBytes = 64;

#include "extract/vit/engine/vector_math.h"

// GCC 12 warns of the plain intrinsics, whose unused operand is uninitialised.
constexpr __mmask16 kAll = 0xffff;

inline void store(Half* to, Float x) {
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(to),
      _mm512_maskz_cvtps_ph(kAll, reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
}

inline void store_one(Half* to, float x) {
  alignas(32) Half all[kLanes];
  store(all, broadcast(x));
  *to = all[0];
}

// Its functions need the ones above.
#include "extract/vit/engine/kernel_templates.h"

constexpr int kRows = 12, kVectors = 2;

// Products are added up in fp16 over so many words only, and these sums in float. A sum of n terms
// in fp16 is off by about sqrt(n / 2) · 1.4e-4 of itself: less than what rounding the factors to
// bf16 does (1.6e-3), and the range of fp16 is kept to short sums.
constexpr std::int64_t kWordsInFp16 = 96;

// A word's two products sit in neighbouring halves of `sums`.
inline Float widen(__m512h sums) {
  const __m512h swapped =
      _mm512_castsi512_ph(_mm512_maskz_rol_epi32(kAll, _mm512_castph_si512(sums), 16));
  const __m512i both = _mm512_castph_si512(_mm512_add_ph(sums, swapped));
  return reinterpret_cast<Float>(
      _mm512_maskz_cvtph_ps(kAll, _mm512_maskz_cvtepi32_epi16(kAll, both)));
}

template <int kHeight>
void multiply_halves(const Word* a, std::int64_t a_stride, const Word* panel, std::int64_t words,
                     float* out, std::int64_t out_stride) {
  for (std::int64_t begin = 0; begin < words; begin += kWordsInFp16) {
    const std::int64_t end = begin + kWordsInFp16 < words ? begin + kWordsInFp16 : words;
    __m512h sums[kHeight][kVectors] = {};
    for (std::int64_t k = begin; k < end; ++k) {
      __m512h b[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)
        b[v] = _mm512_loadu_ph(panel + (k * kVectors + v) * kLanes);
#pragma GCC unroll 12
      for (int r = 0; r < kHeight; ++r) {
        const __m512h left =
            _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(a[r * a_stride + k])));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ph(left, b[v], sums[r][v]);
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kHeight; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* const to = out + r * out_stride + v * kLanes;
        const Float wide = widen(sums[r][v]);
        store(to, begin == 0 ? wide : load(to) + wide);
      }
  }
}

template <int kHeight>
void multiply_in_fp16(std::int64_t rows, const Word* a, std::int64_t a_stride, const Word* panel,
                      std::int64_t words, float* out, std::int64_t out_stride) {
  if constexpr (kHeight > 1) {
    if (rows < kHeight)
      return multiply_in_fp16<kHeight - 1>(rows, a, a_stride, panel, words, out, out_stride);
  }
  multiply_halves<kHeight>(a, a_stride, panel, words, out, out_stride);
}

}  // namespace
#pragma GCC pop_options

const Kernels* avx512_fp16_kernels() {
  static const bool has = avx512_kernels() && __builtin_cpu_supports("avx512fp16");
  if (!has) return nullptr;
  static const Kernels kernels =
      make_kernels<Half, kRows, kVectors>("AVX-512 fp16", multiply_in_fp16<kRows>);
  return &kernels;
}

#else

const Kernels* avx512_fp16_kernels() {
  return nullptr;
}

#endif

}  // namespace coldframe::vit::engine
