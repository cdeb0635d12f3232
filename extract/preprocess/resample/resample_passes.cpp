#include "extract/preprocess/resample/resample_passes.h"

#include <algorithm>

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

}  // namespace

const Passes& portable_passes() {
  static const Passes passes{horizontal_portable, vertical_portable};
  return passes;
}

const Passes& fastest_passes() {
  static const Passes& passes = avx2_passes() != nullptr ? *avx2_passes() : portable_passes();
  return passes;
}

}  // namespace coldframe::preprocess
