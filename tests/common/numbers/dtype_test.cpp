#include "common/numbers/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace coldframe {
namespace {

constexpr DType kAll[] = {DType::kUint8,  DType::kInt8,  DType::kUint16, DType::kInt16,
                          DType::kUint32, DType::kInt32, DType::kUint64, DType::kInt64,
                          DType::kFp16,   DType::kBf16,  DType::kFp32,   DType::kFp64};

template <typename T>
void expect_limits_to_come_back() {
  const std::array<T, 3> numbers{std::numeric_limits<T>::lowest(), T{7},
                                 std::numeric_limits<T>::max()};
  constexpr DType kType = dtype_of<T>();
  EXPECT_EQ(bytes_of(kType), sizeof(T));
  std::vector<double> doubles(numbers.size());
  convert(std::as_bytes(std::span(numbers)), kType, std::span(doubles));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(doubles[i], static_cast<double>(numbers[i])) << dtype_name(kType);
}

TEST(DTypes, ConvertEveryNumberOfTheLanguage) {
  expect_limits_to_come_back<std::uint8_t>();
  expect_limits_to_come_back<std::int8_t>();
  expect_limits_to_come_back<std::uint16_t>();
  expect_limits_to_come_back<std::int16_t>();
  expect_limits_to_come_back<std::uint32_t>();
  expect_limits_to_come_back<std::int32_t>();
  expect_limits_to_come_back<std::uint64_t>();
  expect_limits_to_come_back<std::int64_t>();
  expect_limits_to_come_back<float>();
  expect_limits_to_come_back<double>();
}

TEST(DTypes, ConvertHalves) {
  const std::array<std::uint16_t, 2> fp16{0x3c00, 0xc100}, bf16{0x3f80, 0xc020};
  for (const auto& [type, bits] : {std::pair{DType::kFp16, fp16}, {DType::kBf16, bf16}}) {
    std::array<double, 2> doubles{};
    std::array<float, 2> floats{};
    convert(std::as_bytes(std::span(bits)), type, std::span<double>(doubles));
    convert(std::as_bytes(std::span(bits)), type, std::span<float>(floats));
    EXPECT_EQ(doubles, (std::array{1.0, -2.5})) << dtype_name(type);
    EXPECT_EQ(floats, (std::array{1.0f, -2.5f})) << dtype_name(type);
  }
}

TEST(DTypes, StoreFloatsAsTheyAreOrAsHalves) {
  const std::array<float, 2> values{1, -2.5f};
  for (const DType type : {DType::kFp16, DType::kFp32}) {
    std::vector<std::byte> bytes(values.size() * bytes_of(type));
    store(values, type, bytes);
    std::array<float, 2> again{};
    convert(bytes, type, std::span<float>(again));
    EXPECT_EQ(again, values) << dtype_name(type);
  }
}

TEST(DTypes, HaveTheNamesOfNumpy) {
  for (const DType type : kAll) {
    if (type == DType::kBf16) continue;  // which NumPy lacks
    EXPECT_EQ(find_numpy_type(numpy_name(type)), type) << dtype_name(type);
  }
  EXPECT_EQ(numpy_name(DType::kFp16), "f2");
  EXPECT_FALSE(find_numpy_type(""));
  EXPECT_FALSE(find_numpy_type("c8"));
}

}  // namespace
}  // namespace coldframe
