#include "extract/preprocess/resample/resample_passes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace coldframe::preprocess {
namespace {

std::uint8_t rounded(std::int32_t sum, int shift) {
  return static_cast<std::uint8_t>(std::clamp(sum >> shift, 0, 255));
}

void horizontal_portable(const Kernel& x, const std::array<const std::uint8_t*, 4>& in,
                         const std::array<std::uint8_t*, 4>& out) {
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < x.first.size(); ++i) {
      const std::uint8_t* pixel = in[row] + static_cast<std::size_t>(x.first[i]) * 3;
      std::int32_t red = 1 << (x.shift - 1), green = red, blue = red;
      for (std::size_t tap = 0; tap < static_cast<std::size_t>(x.count[i]); ++tap, pixel += 3) {
        const std::int32_t weight = x.weight(i, tap);
        red += pixel[0] * weight;
        green += pixel[1] * weight;
        blue += pixel[2] * weight;
      }
      out[row][i * 3] = rounded(red, x.shift);
      out[row][i * 3 + 1] = rounded(green, x.shift);
      out[row][i * 3 + 2] = rounded(blue, x.shift);
    }
  }
}

void vertical_portable(const Kernel& y, std::size_t row, const std::uint8_t* in, std::size_t stride,
                       std::size_t bytes, std::uint8_t* out) {
  constexpr std::size_t kBlock = 256;  // sums that stay in the first-level cache
  std::array<std::int32_t, kBlock> sums;
  for (std::size_t begin = 0; begin < bytes; begin += kBlock) {
    const std::size_t n = std::min(kBlock, bytes - begin);
    sums.fill(1 << (y.shift - 1));
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(y.count[row]); ++tap) {
      const std::int32_t weight = y.weight(row, tap);
      const std::uint8_t* from = in + tap * stride + begin;
      for (std::size_t i = 0; i < n; ++i) sums[i] += from[i] * weight;
    }
    for (std::size_t i = 0; i < n; ++i) out[begin + i] = rounded(sums[i], y.shift);
  }
}

#if defined(__x86_64__)

// The resampler's loops in AVX2. A weight of up to 24 bits is split into two 16-bit parts, so that
// the processor's one-step "multiply 16-bit pairs and add" does the work of slow 32-bit
// multiplications; the parts' sums are joined at the end. Sums are exact modulo 2^32 and the true
// result fits in 32 bits, so that a part's wrap-around cancels.
#define COLDFRAME_AVX2 __attribute__((target("avx2")))

COLDFRAME_AVX2 inline __m256i broadcast_pair(const std::int16_t* weights) {
  std::int32_t pair;
  std::memcpy(&pair, weights, sizeof pair);
  return _mm256_set1_epi32(pair);
}

COLDFRAME_AVX2 inline __m256i two_rows(const std::uint8_t* a, const std::uint8_t* b) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
}

COLDFRAME_AVX2 inline __m256i accumulate(__m256i sum, __m256i pixels, __m256i weights) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pixels, weights));
}

COLDFRAME_AVX2 inline __m256i finish(__m256i low, __m256i high, __m256i half, __m128i shift) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, 16), _mm256_add_epi32(low, half));
  return _mm256_sra_epi32(sum, shift);
}

COLDFRAME_AVX2 inline void store_pixel(std::uint8_t* to, int pixel) {
  std::memcpy(to, &pixel, sizeof pixel);  // one byte too many: the next pixel overwrites it
}

// Four rows × one output pixel × four taps a step. A 16-byte load holds R0G0B0R1G1B1R2G2B2R3G3B3;
// the shuffles spread it to 16-bit pairs R0R1 G0G1 B0B1 and R2R3 G2G3 B2B3.
template <bool kWide>
COLDFRAME_AVX2 void horizontal(const Kernel& x, const std::array<const std::uint8_t*, 4>& in,
                               const std::array<std::uint8_t*, 4>& out) {
  const __m256i taps01 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
  const __m256i taps23 = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
  const __m256i half = _mm256_set1_epi32(1 << (x.shift - 1));
  const __m128i shift = _mm_cvtsi32_si128(x.shift);
  const std::size_t stride = static_cast<std::size_t>(x.stride);
  for (std::size_t i = 0; i < x.first.size(); ++i) {
    const std::size_t base = static_cast<std::size_t>(x.first[i]) * 3;
    const std::int16_t* low = x.low.data() + i * stride;
    const std::int16_t* high = x.high.data() + i * stride;
    __m256i low01 = _mm256_setzero_si256(), low23 = low01, high01 = low01, high23 = low01;
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(x.count[i]); tap += 4) {
      const std::size_t at = base + tap * 3;
      const __m256i rows01 = two_rows(in[0] + at, in[1] + at);
      const __m256i rows23 = two_rows(in[2] + at, in[3] + at);
      const __m256i a01 = _mm256_shuffle_epi8(rows01, taps01);
      const __m256i b01 = _mm256_shuffle_epi8(rows01, taps23);
      const __m256i a23 = _mm256_shuffle_epi8(rows23, taps01);
      const __m256i b23 = _mm256_shuffle_epi8(rows23, taps23);
      const __m256i low_a = broadcast_pair(low + tap), low_b = broadcast_pair(low + tap + 2);
      low01 = accumulate(accumulate(low01, a01, low_a), b01, low_b);
      low23 = accumulate(accumulate(low23, a23, low_a), b23, low_b);
      if constexpr (kWide) {
        const __m256i high_a = broadcast_pair(high + tap), high_b = broadcast_pair(high + tap + 2);
        high01 = accumulate(accumulate(high01, a01, high_a), b01, high_b);
        high23 = accumulate(accumulate(high23, a23, high_a), b23, high_b);
      }
    }
    const __m256i words =
        _mm256_packs_epi32(finish(low01, high01, half, shift), finish(low23, high23, half, shift));
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m128i even = _mm256_castsi256_si128(bytes), odd = _mm256_extracti128_si256(bytes, 1);
    store_pixel(out[0] + i * 3, _mm_cvtsi128_si32(even));
    store_pixel(out[1] + i * 3, _mm_cvtsi128_si32(odd));
    store_pixel(out[2] + i * 3, _mm_extract_epi32(even, 1));
    store_pixel(out[3] + i * 3, _mm_extract_epi32(odd, 1));
  }
}

// 32 bytes of one output row, two input rows a step: bytes of both rows are interleaved to 16-bit
// pairs.
template <bool kWide>
COLDFRAME_AVX2 __m256i vertical_block(const Kernel& y, std::size_t row, const std::uint8_t* in,
                                      std::size_t stride) {
  const __m256i zero = _mm256_setzero_si256();
  const std::int16_t* low = y.low.data() + row * static_cast<std::size_t>(y.stride);
  const std::int16_t* high = y.high.data() + row * static_cast<std::size_t>(y.stride);
  const std::size_t count = static_cast<std::size_t>(y.count[row]);
  __m256i low_sum[4] = {zero, zero, zero, zero}, high_sum[4] = {zero, zero, zero, zero};
  for (std::size_t tap = 0; tap < count; tap += 2) {
    const std::uint8_t* at = in + tap * stride;
    const std::uint8_t* next = tap + 1 < count ? at + stride : at;  // its weight is zero then
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
    const __m256i first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
    const __m256i pairs[4] = {_mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
                              _mm256_unpacklo_epi8(second, zero),
                              _mm256_unpackhi_epi8(second, zero)};
    const __m256i low_weights = broadcast_pair(low + tap);
    for (std::size_t i = 0; i < 4; ++i) low_sum[i] = accumulate(low_sum[i], pairs[i], low_weights);
    if constexpr (kWide) {
      const __m256i weights = broadcast_pair(high + tap);
      for (std::size_t i = 0; i < 4; ++i) high_sum[i] = accumulate(high_sum[i], pairs[i], weights);
    }
  }
  const __m256i half = _mm256_set1_epi32(1 << (y.shift - 1));
  const __m128i shift = _mm_cvtsi32_si128(y.shift);
  return _mm256_packus_epi16(_mm256_packs_epi32(finish(low_sum[0], high_sum[0], half, shift),
                                                finish(low_sum[1], high_sum[1], half, shift)),
                             _mm256_packs_epi32(finish(low_sum[2], high_sum[2], half, shift),
                                                finish(low_sum[3], high_sum[3], half, shift)));
}

template <bool kWide>
COLDFRAME_AVX2 void vertical(const Kernel& y, std::size_t row, const std::uint8_t* in,
                             std::size_t stride, std::size_t bytes, std::uint8_t* out) {
  for (std::size_t begin = 0; begin < bytes; begin += 32) {
    const __m256i block = vertical_block<kWide>(y, row, in + begin, stride);
    if (begin + 32 <= bytes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + begin), block);
    } else {
      alignas(32) std::array<std::uint8_t, 32> last;
      _mm256_store_si256(reinterpret_cast<__m256i*>(last.data()), block);
      std::memcpy(out + begin, last.data(), bytes - begin);
    }
  }
}

void horizontal_avx2(const Kernel& x, const std::array<const std::uint8_t*, 4>& in,
                     const std::array<std::uint8_t*, 4>& out) {
  x.wide ? horizontal<true>(x, in, out) : horizontal<false>(x, in, out);
}

void vertical_avx2(const Kernel& y, std::size_t row, const std::uint8_t* in, std::size_t stride,
                   std::size_t bytes, std::uint8_t* out) {
  y.wide ? vertical<true>(y, row, in, stride, bytes, out)
         : vertical<false>(y, row, in, stride, bytes, out);
}

#endif

}  // namespace

const Passes* avx2_passes() {
#if defined(__x86_64__)
  static const Passes passes{horizontal_avx2, vertical_avx2};
  return __builtin_cpu_supports("avx2") ? &passes : nullptr;
#else
  return nullptr;
#endif
}

const Passes& portable_passes() {
  static const Passes passes{horizontal_portable, vertical_portable};
  return passes;
}

const Passes& fastest_passes() {
  static const Passes& passes = avx2_passes() != nullptr ? *avx2_passes() : portable_passes();
  return passes;
}

}  // namespace coldframe::preprocess
