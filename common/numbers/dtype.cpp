#include "common/numbers/dtype.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

namespace coldframe {

namespace {

struct Facts {
  const char* name;
  std::string_view numpy;
  std::size_t bytes;
};

// In the order of DType.
constexpr Facts kFacts[] = {{"uint8", "u1", 1},  {"int8", "i1", 1},    {"uint16", "u2", 2},
                            {"int16", "i2", 2},  {"uint32", "u4", 4},  {"int32", "i4", 4},
                            {"uint64", "u8", 8}, {"int64", "i8", 8},   {"float16", "f2", 2},
                            {"bfloat16", "", 2}, {"float32", "f4", 4}, {"float64", "f8", 8}};

const Facts& facts(DType type) {
  return kFacts[static_cast<std::size_t>(type)];
}

template <typename From, typename To>
void convert_from(std::span<const std::byte> bytes, std::span<To> values) {
  const std::byte* from = bytes.data();
  for (To& value : values) {
    From number;
    std::memcpy(&number, from, sizeof number);
    value = static_cast<To>(number);
    from += sizeof number;
  }
}

void convert_half(std::span<const std::byte> bytes, std::span<float> values) {
  from_half({reinterpret_cast<const std::uint16_t*>(bytes.data()), values.size()}, values);
}

void convert_half(std::span<const std::byte> bytes, std::span<double> values) {
  std::vector<float> floats(values.size());
  convert_half(bytes, std::span(floats));
  std::ranges::copy(floats, values.begin());
}

struct Bfloat16 {
  std::uint16_t bits;
  template <typename To>
  explicit operator To() const {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};

}  // namespace

std::size_t bytes_of(DType type) {
  return facts(type).bytes;
}

const char* dtype_name(DType type) {
  return facts(type).name;
}

std::string_view numpy_name(DType type) {
  return facts(type).numpy;
}

std::optional<DType> find_numpy_type(std::string_view name) {
  const auto* found = std::ranges::find(kFacts, name, &Facts::numpy);
  if (name.empty() || found == std::end(kFacts)) return std::nullopt;
  return static_cast<DType>(found - std::begin(kFacts));
}

template <typename To>
void convert(std::span<const std::byte> bytes, DType type, std::span<To> values) {
  switch (type) {
    case DType::kUint8:
      return convert_from<std::uint8_t>(bytes, values);
    case DType::kInt8:
      return convert_from<std::int8_t>(bytes, values);
    case DType::kUint16:
      return convert_from<std::uint16_t>(bytes, values);
    case DType::kInt16:
      return convert_from<std::int16_t>(bytes, values);
    case DType::kUint32:
      return convert_from<std::uint32_t>(bytes, values);
    case DType::kInt32:
      return convert_from<std::int32_t>(bytes, values);
    case DType::kUint64:
      return convert_from<std::uint64_t>(bytes, values);
    case DType::kInt64:
      return convert_from<std::int64_t>(bytes, values);
    case DType::kFp16:
      return convert_half(bytes, values);
    case DType::kBf16:
      return convert_from<Bfloat16>(bytes, values);
    case DType::kFp32:
      return convert_from<float>(bytes, values);
    case DType::kFp64:
      return convert_from<double>(bytes, values);
  }
}
template void convert(std::span<const std::byte>, DType, std::span<float>);
template void convert(std::span<const std::byte>, DType, std::span<double>);

void store(std::span<const float> values, DType type, std::span<std::byte> bytes) {
  if (type == DType::kFp16)
    to_half(values, {reinterpret_cast<std::uint16_t*>(bytes.data()), values.size()});
  else
    std::ranges::copy(std::as_bytes(values), bytes.begin());
}

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
