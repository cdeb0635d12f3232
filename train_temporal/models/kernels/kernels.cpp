#include "train_temporal/models/kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

// GCC 12 takes the undefined operand of its own unmasked intrinsics for a mistake of ours (PR
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace coldframe::temporal {
namespace {

// Bits of IEEE 754's binary16: sign, 5 of the exponent, 10 of the fraction.
float from_half(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const auto fraction = static_cast<float>(half & 1023);
  float size = std::ldexp(fraction, -24);
  if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
  if (exponent > 0 && exponent < 31) size = std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

// For any processor: what the others are held to.
namespace plain {

struct Vector {
  using F = float;
  static constexpr std::int64_t kWidth = 1;
  static constexpr int kTileRows = 4;

  static F load(const float* p) { return *p; }
  static F load_first(const float* p, std::int64_t) { return *p; }
  static F load(const std::uint16_t* p) { return from_half(*p); }
  static F load_first(const std::uint16_t* p, std::int64_t) { return from_half(*p); }
  static void store(float* p, F x) { *p = x; }
  static void store_first(float* p, F x, std::int64_t) { *p = x; }
  static F set(float x) { return x; }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F fma(F a, F b, F c) { return std::fma(a, b, c); }
  static F sqrt(F a) { return std::sqrt(a); }
  static F min(F a, F b) { return a < b ? a : b; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F round(F a) { return std::nearbyint(a); }
  static F absolute(F a) { return std::abs(a); }
  static F with_sign_of(F a, F b) { return std::copysign(a, b); }
  static constexpr auto drop_block = drop_block_by_words;
  static F power_of_two(F n) {
    return std::isfinite(n) ? std::ldexp(1.0f, static_cast<int>(n)) : n;
  }
};

#include "train_temporal/models/kernels/body.h"

}  // namespace plain

#if defined(__x86_64__)

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace avx2 {

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

#include "train_temporal/models/kernels/body.h"

}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
namespace avx512 {

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

#include "train_temporal/models/kernels/body.h"

}  // namespace avx512
#pragma GCC pop_options

#endif

std::array<float, kQuantiles> compute_quantiles() {
  std::array<float, kQuantiles> result{};
  const boost::math::normal normal;
  for (std::size_t i = kQuantiles / 2; i < kQuantiles; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
    result[i] = static_cast<float>(quantile(complement(normal, 1 - below)));
    result[kQuantiles - 1 - i] = -result[i];
  }
  return result;
}

}  // namespace

const float* normal_quantiles() {
  static const std::array<float, kQuantiles> quantiles = compute_quantiles();
  return quantiles.data();
}

const SequenceKernels& plain_kernels() {
  static constexpr SequenceKernels table = plain::table_of("plain");
  return table;
}

const SequenceKernels* avx2_kernels() {
#if defined(__x86_64__)
  static constexpr SequenceKernels table = avx2::table_of("avx2");
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("f16c");
  return has ? &table : nullptr;
#else
  return nullptr;
#endif
}

const SequenceKernels* avx512_kernels() {
#if defined(__x86_64__)
  static constexpr SequenceKernels table = avx512::table_of("avx512");
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("fma");
  return has ? &table : nullptr;
#else
  return nullptr;
#endif
}

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
