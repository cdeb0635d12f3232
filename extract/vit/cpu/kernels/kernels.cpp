#include "extract/vit/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <bit>

namespace coldframe::vit::cpu {

#if defined(__x86_64__)

// Each set has its own copy of the templates, compiled with its instructions.
namespace {

#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {

constexpr int kVectorBytes = 32;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"
// And its.
#include "extract/vit/cpu/kernels/tiles.h"

}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
namespace avx512 {

constexpr int kVectorBytes = 64;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"

}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,prefer-vector-width=512")
namespace avx512_bf16 {

constexpr int kVectorBytes = 64;

#include "extract/vit/cpu/kernels/vector_math.h"
// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"
// And its.
#include "extract/vit/cpu/kernels/tiles.h"

// VDPBF16PS: both products of a word's pair added in one instruction.
struct Bf16PairProduct {
  static Float add(Float sums, Float a, Float b) {
    return reinterpret_cast<Float>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums),
                                                    reinterpret_cast<__m512bh>(a),
                                                    reinterpret_cast<__m512bh>(b)));
  }
};

}  // namespace avx512_bf16
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512fp16,fma,prefer-vector-width=512")
namespace avx512_fp16 {

constexpr int kVectorBytes = 64;

#include "extract/vit/cpu/kernels/vector_math.h"

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

inline Float load(const Half* from) {
  return reinterpret_cast<Float>(
      _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}

inline float load_one(const Half* from) {
  return static_cast<float>(*reinterpret_cast<const _Float16*>(from));
}

// Its functions need the ones above.
#include "extract/vit/cpu/kernels/templates.h"

constexpr int kRows = 12, kVectors = 2;

// Sums are kept short, as each addition in fp16 is off by about 2e-4 of the sum so far, and as fp16
// reaches to 65504 only: products are added up in fp16 within a run of words, runs in fp16 within a
// stretch, stretches in float. Sums of random terms are then off by 7.6e-4 of themselves; without
// runs they were by 1.5e-3, and a ViT-S three times as far from fp32 for 4 % less time.
constexpr std::int64_t kRun = 16, kStretch = 96;

// A word's two products sit in neighbouring halves of `sums`.
inline Float widen(__m512h sums) {
  const __m512h swapped =
      _mm512_castsi512_ph(_mm512_maskz_rol_epi32(kAll, _mm512_castph_si512(sums), 16));
  const __m512i both = _mm512_castph_si512(_mm512_add_ph(sums, swapped));
  return reinterpret_cast<Float>(
      _mm512_maskz_cvtph_ps(kAll, _mm512_maskz_cvtepi32_epi16(kAll, both)));
}

template <int kHeight>
using Halves = __m512h[kHeight][kVectors];

// carried += the products of the next `words` words
template <int kHeight>
inline void add_run(std::int64_t words, LeftRows<kHeight>& left, const Word*& panel,
                    LookAhead& ahead, Halves<kHeight>& carried) {
  Halves<kHeight> sums = {};
  for (const Word* const end = panel + words * kVectors * kLanes; panel < end;
       panel += kVectors * kLanes) {
    ahead.look();
    __m512h b[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) b[v] = _mm512_loadu_ph(panel + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kHeight; ++r) {
      const __m512h word = _mm512_castsi512_ph(_mm512_set1_epi32(static_cast<int>(left[r])));
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ph(word, b[v], sums[r][v]);
    }
    left.next();
  }
#pragma GCC unroll 12
  for (int r = 0; r < kHeight; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) carried[r][v] = _mm512_add_ph(carried[r][v], sums[r][v]);
}

template <int kHeight>
void multiply_halves(const LinearProduct& product) {
  finish_before(product);
  LeftRows<kHeight> left(product);
  LookAhead ahead(product);
  const Word* panel = product.panel;
  for (std::int64_t begin = 0; begin < product.words; begin += kStretch) {
    const std::int64_t end = begin + kStretch < product.words ? begin + kStretch : product.words;
    Halves<kHeight> carried = {};
    for (std::int64_t k = begin; k < end; k += kRun)
      add_run<kHeight>(k + kRun < end ? kRun : end - k, left, panel, ahead, carried);
#pragma GCC unroll 12
    for (int r = 0; r < kHeight; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* const to = product.sums + r * product.sums_stride + v * kLanes;
        const Float wide = widen(carried[r][v]);
        store(to, begin == 0 ? wide : load(to) + wide);
      }
  }
}

template <int kHeight>
void multiply_in_fp16(std::int64_t rows, const LinearProduct& product) {
  if constexpr (kHeight > 1) {
    if (rows < kHeight) return multiply_in_fp16<kHeight - 1>(rows, product);
  }
  multiply_halves<kHeight>(product);
}

}  // namespace avx512_fp16
#pragma GCC pop_options

}  // namespace

const Kernels* avx2_kernels() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!has) return nullptr;
  static const Kernels kernels =
      avx2::make_kernels<float, 6, 2>("AVX2 fp32", avx2::multiply<6, 2, avx2::FloatProduct>);
  return &kernels;
}

const Kernels* avx512_kernels() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!has) return nullptr;
  static const Kernels kernels = avx512::make_kernels<float, 12, 2>(
      "AVX-512 fp32", avx512::multiply<12, 2, avx512::FloatProduct>);
  return &kernels;
}

const Kernels* avx512_bf16_kernels() {
  static const bool has = avx512_kernels() && __builtin_cpu_supports("avx512bf16");
  if (!has) return nullptr;
  static const Kernels kernels = avx512_bf16::make_kernels<std::uint16_t, 12, 2>(
      "AVX-512 bf16", avx512_bf16::multiply<12, 2, avx512_bf16::Bf16PairProduct>);
  return &kernels;
}

const Kernels* avx512_fp16_kernels() {
  static const bool has = avx512_kernels() && __builtin_cpu_supports("avx512fp16");
  if (!has) return nullptr;
  using namespace avx512_fp16;
  static const Kernels kernels =
      make_kernels<Half, kRows, kVectors>("AVX-512 fp16", multiply_in_fp16<kRows>);
  return &kernels;
}

// Linux saves the tiles of a process only once it has asked for them (ARCH_REQ_XCOMP_PERM, 18 for
// their data).
const Kernels* amx_bf16_kernels() {
  constexpr int kAskFor = 0x1023, kTileData = 18;
  static const bool has = avx512_bf16_kernels() && __builtin_cpu_supports("amx-tile") &&
                          __builtin_cpu_supports("amx-bf16") &&
                          syscall(SYS_arch_prctl, kAskFor, kTileData) == 0;
  if (!has) return nullptr;
  static const Kernels kernels = avx512_bf16::make_tile_kernels<avx512_bf16::AmxTiles>("AMX bf16");
  return &kernels;
}

const Kernels* plain_tile_kernels() {
  if (!avx2_kernels()) return nullptr;
  static const Kernels kernels = avx2::make_tile_kernels<avx2::PlainTiles>("AMX bf16 in plain C++");
  return &kernels;
}

#else

const Kernels* avx2_kernels() {
  return nullptr;
}
const Kernels* avx512_kernels() {
  return nullptr;
}
const Kernels* avx512_bf16_kernels() {
  return nullptr;
}
const Kernels* avx512_fp16_kernels() {
  return nullptr;
}
const Kernels* amx_bf16_kernels() {
  return nullptr;
}
const Kernels* plain_tile_kernels() {
  return nullptr;
}

#endif

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> available;
  for (const Kernels* kernels : {avx2_kernels(), avx512_kernels(), avx512_bf16_kernels(),
                                 avx512_fp16_kernels(), amx_bf16_kernels()})
    if (kernels) available.push_back(kernels);
  return available;
}

const Kernels* fastest_fp32_kernels() {
  const Kernels* const kernels = avx512_kernels();
  return kernels ? kernels : avx2_kernels();
}

}  // namespace coldframe::vit::cpu
