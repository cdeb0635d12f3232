// The kernels for any processor: what the others are held to.
#include <cmath>
#include <cstring>
#include <utility>

#include "train_temporal/models/kernels/kernels.h"

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

#include "train_temporal/models/kernels/elementwise_body.h"

#include "train_temporal/models/kernels/multiply_body.h"

}  // namespace

const SequenceKernels& plain_kernels() {
  static constexpr SequenceKernels table = table_of("plain");
  return table;
}

}  // namespace coldframe::temporal
