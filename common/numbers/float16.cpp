#include "common/numbers/float16.h"

#include <bit>
#include <cstddef>

namespace coldframe {
namespace {

constexpr std::uint32_t kInfinity32 = 0x7f800000;
constexpr std::uint32_t kOverflow = 0x477ff000;        // 65520 as float32 bits
constexpr std::uint32_t kSmallestNormal = 113u << 23;  // 2^-14, the smallest normal half
constexpr std::uint32_t kBiasShift = (127u - 15u) << 23;

std::uint16_t half_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  // Normal: drop 13 bits, adding just under half a unit plus the kept bit's parity before.
  const std::uint32_t normal = (magnitude - kBiasShift + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal: adding 1/2 aligns the mantissa to units of 2^-24, and the FPU rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  const std::uint32_t special = magnitude > kInfinity32 ? kHalfNaN : 0x7c00;
  const std::uint32_t finite = magnitude < kSmallestNormal ? subnormal : normal;
  const std::uint32_t half = magnitude >= kOverflow ? special : finite;
  const std::uint32_t sign = magnitude > kInfinity32 ? 0 : (bits >> 16) & 0x8000;
  return static_cast<std::uint16_t>(half | sign);
}

float float_of(std::uint16_t half) {
  const std::uint32_t shifted = (half & 0x7fffu) << 13;
  const std::uint32_t exponent = shifted & 0x0f800000;
  const std::uint32_t normal = shifted + kBiasShift;
  const std::uint32_t special = normal + ((128u - 16u) << 23);
  // Subnormal: read as 2^-14 · (1 + m), then take 2^-14 away.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      std::bit_cast<float>(shifted + kSmallestNormal) - std::bit_cast<float>(kSmallestNormal));
  const std::uint32_t magnitude = exponent == 0x0f800000 ? special
                                  : exponent == 0        ? subnormal
                                                         : normal;
  return std::bit_cast<float>(magnitude | (static_cast<std::uint32_t>(half & 0x8000u) << 16));
}

}  // namespace

void to_half(std::span<const float> values, std::span<std::uint16_t> halves) {
  for (std::size_t i = 0; i < values.size(); ++i) halves[i] = half_bits(values[i]);
}

void from_half(std::span<const std::uint16_t> halves, std::span<float> values) {
  for (std::size_t i = 0; i < halves.size(); ++i) values[i] = float_of(halves[i]);
}

}  // namespace coldframe
