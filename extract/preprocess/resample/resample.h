// Separable resampling of 8-bit RGB in fixed point, in two passes with an 8-bit image in between,
// bit-identical to Pillow's `Image.resize` (src/libImaging/Resample.c) and to ATen's antialiased
// uint8 kernel. Both choose and normalise their weights alike; they differ in how they round them:
// Pillow to 22 fractional bits, ATen to as many as keep the axis's largest weight within 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// Weights of one axis: output i is the sum over t < count[i] of input[first[i] + t] · weight[i][t],
// plus half, shifted right by `shift` and clamped to [0, 255].
struct Kernel {
  int shift = 0;
  int stride = 0;  // taps kept per output: the largest count, rounded up to 4, the rest zero
  std::vector<std::int32_t> first, count;  // [size]
  // weight = high · 2^16 + low, each part fit for 16-bit multiplication. [size, stride]
  std::vector<std::int16_t> low, high;
  bool wide = false;  // whether any `high` differs from zero

  std::int32_t weight(std::size_t output, std::size_t tap) const {
    const std::size_t at = output * static_cast<std::size_t>(stride) + tap;
    return high[at] * 65536 + low[at];
  }
};

Kernel make_kernel(Interpolation interpolation, Resampler resampler, const Axis& axis);

// Writes y.size × x.size pixels to `out`, whose rows are `out_stride` bytes apart.
void resample_rgb(const frames::Image& image, const Kernel& x, const Kernel& y, bool vertical_first,
                  std::uint8_t* out, std::size_t out_stride);

}  // namespace coldframe::preprocess
