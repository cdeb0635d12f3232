// The types of numbers: in files, in memory, and in which models compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace coldframe {

enum class DType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64
};

std::size_t bytes_of(DType type);
const char* dtype_name(DType type);  // "uint8", "float16", as NumPy and HDF5's tools call it
constexpr bool is_float(DType type) {
  return type >= DType::kFp16;
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kFp32;
  if constexpr (std::is_same_v<T, double>) return DType::kFp64;
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  constexpr int kSize = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
  return static_cast<DType>(kSize + (std::is_signed_v<T> ? 1 : 0));
}

// "f4", as the header of a .npy file has it behind the order of bytes; "" for bfloat16, which NumPy
// lacks.
std::string_view numpy_name(DType type);
std::optional<DType> find_numpy_type(std::string_view name);

// Numbers in the machine's order of bytes as float or double. `values` says how many. Those of
// float16 lie at an even address.
template <typename To>
void convert(std::span<const std::byte> bytes, DType type, std::span<To> values);
extern template void convert(std::span<const std::byte>, DType, std::span<float>);
extern template void convert(std::span<const std::byte>, DType, std::span<double>);

// Floats as float16, rounded to nearest, ties to even, or as they are. `bytes` has room for them.
void store(std::span<const float> values, DType type, std::span<std::byte> bytes);

// IEEE binary16 ("half") to and from float32, rounding to nearest, ties to even. Branch-free, so
// that the compiler makes vector code of the loops on any machine.

inline constexpr std::uint16_t kHalfNaN = 0x7e00;

// Values of 65520 and more become infinities; a NaN becomes kHalfNaN. Spans of equal size.
void to_half(std::span<const float> values, std::span<std::uint16_t> halves);
void from_half(std::span<const std::uint16_t> halves, std::span<float> values);

// The smallest magnitude that rounds to infinity.
inline constexpr float kHalfOverflow = 65520.0f;

}  // namespace coldframe
