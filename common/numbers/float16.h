// IEEE binary16 ("half") to and from float32, rounding to nearest, ties to even. Branch-free, so
// that the compiler makes vector code of the loops on any machine.
#pragma once

#include <cstdint>
#include <span>

namespace coldframe {

inline constexpr std::uint16_t kHalfNaN = 0x7e00;

// Values of 65520 and more become infinities; a NaN becomes kHalfNaN. Spans of equal size.
void to_half(std::span<const float> values, std::span<std::uint16_t> halves);
void from_half(std::span<const std::uint16_t> halves, std::span<float> values);

// The smallest magnitude that rounds to infinity.
inline constexpr float kHalfOverflow = 65520.0f;

}  // namespace coldframe
