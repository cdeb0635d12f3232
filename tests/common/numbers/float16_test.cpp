// Every half and the neighbourhood of every rounding border, against the compiler's own _Float16.
// (tests/cache/test_cache.py compares with numpy.)
#include "common/numbers/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace coldframe {
namespace {

TEST(Float16, EveryHalfComesBackAsItself) {
  std::vector<std::uint16_t> halves(65536), again(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  from_half(halves, floats);
  to_half(floats, again);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    if (std::isnan(floats[i])) {
      ASSERT_GT(i & 0x7fff, 0x7c00u);
      ASSERT_EQ(again[i], 0x7e00) << i;
    } else {
      ASSERT_EQ(floats[i], static_cast<float>(std::bit_cast<_Float16>(halves[i]))) << i;
      ASSERT_EQ(again[i], halves[i]);
    }
  }
}

TEST(Float16, RoundsAsTheCompilerDoes) {
  std::vector<float> values;
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {
    // A half, the middle between it and the next, and the floats beside both.
    const float here =
        static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(half)));
    const float next =
        half == 0x7bff
            ? 65536.0f
            : static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(half + 1)));
    const float middle = 0.5f * here + 0.5f * next;
    for (const float centre : {here, middle})
      for (const float value :
           {std::nextafter(centre, -1.0f), centre, std::nextafter(centre, 1e9f)})
        values.insert(values.end(), {value, -value});
  }
  for (std::uint32_t bits = 1; bits < 0x7f800000; bits += 99991)
    values.insert(values.end(), {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)});
  std::vector<std::uint16_t> halves(values.size());
  to_half(values, halves);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(halves[i], std::bit_cast<std::uint16_t>(static_cast<_Float16>(values[i])))
        << values[i];
}

TEST(Float16, OverflowsAt65520) {
  const std::vector<float> values{std::nextafter(kHalfOverflow, 0.0f), kHalfOverflow};
  std::vector<std::uint16_t> halves(2);
  to_half(values, halves);
  EXPECT_EQ(halves[0], 0x7bff);
  EXPECT_EQ(halves[1], 0x7c00);
}

}  // namespace
}  // namespace coldframe
