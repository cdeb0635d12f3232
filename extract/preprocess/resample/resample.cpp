#include "extract/preprocess/resample/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "extract/preprocess/resample/resample_passes.h"

namespace coldframe::preprocess {
namespace {

constexpr int kPillowShift = 32 - 8 - 2;  // Resample.c, PRECISION_BITS
constexpr int kTapBlock = 4;              // the horizontal loops take four taps at a time

double triangle(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic convolution with a = −0.5.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// Weights of output `i` of the axis before rounding. The filter is stretched by the scale when
// shrinking (that is the antialiasing), centred on the output pixel, cut at the borders and
// normalised to the sum 1. Returns the first input pixel.
int real_weights(Interpolation interpolation, const Axis& axis, std::int64_t i,
                 std::vector<double>& weights) {
  const bool bicubic = interpolation == Interpolation::kBicubic;
  const double scale = static_cast<double>(axis.input) / static_cast<double>(axis.scaled);
  const double stretch = std::max(scale, 1.0);
  const double support = (bicubic ? 2.0 : 1.0) * stretch;
  const double inverse = 1.0 / stretch;
  const double centre = (static_cast<double>(i) + 0.5) * scale;
  const int begin = std::max(0, static_cast<int>(centre - support + 0.5));
  const int end = std::min(axis.input, static_cast<int>(centre + support + 0.5));
  weights.clear();
  double sum = 0.0;
  for (int x = begin; x < end; ++x) {
    const double at = (x - centre + 0.5) * inverse;
    weights.push_back(bicubic ? cubic(at) : triangle(at));
    sum += weights.back();
  }
  if (sum != 0.0) {
    for (double& weight : weights) weight /= sum;
  }
  return begin;
}

// ATen's compute_index_ranges_int16_weights: the most bits with which the largest weight still fits
// in 16 bits. The largest of the whole axis counts, cropped away or not.
int torch_shift(Interpolation interpolation, const Axis& axis) {
  double largest = 0.0;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < axis.scaled; ++i) {
    real_weights(interpolation, axis, i, weights);
    for (const double weight : weights) largest = std::max(largest, weight);
  }
  int shift = 0;
  while (shift < 22 &&
         static_cast<int>(0.5 + largest * static_cast<double>(1 << (shift + 1))) < (1 << 15)) {
    ++shift;
  }
  return shift;
}

std::int32_t to_fixed(double weight, int shift) {
  const double scaled = weight * static_cast<double>(1 << shift);
  return static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

}  // namespace

Kernel make_kernel(Interpolation interpolation, Resampler resampler, const Axis& axis) {
  Kernel kernel;
  kernel.shift = is_of_tensors(resampler) ? torch_shift(interpolation, axis) : kPillowShift;
  const std::size_t size = static_cast<std::size_t>(axis.size);
  std::vector<std::vector<double>> real(size);
  std::size_t most = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int64_t output = axis.offset + static_cast<std::int64_t>(i);
    kernel.first.push_back(real_weights(interpolation, axis, output, real[i]));
    kernel.count.push_back(static_cast<std::int32_t>(real[i].size()));
    most = std::max(most, real[i].size());
  }
  kernel.stride = static_cast<int>((most + kTapBlock - 1) / kTapBlock * kTapBlock);
  const std::size_t stride = static_cast<std::size_t>(kernel.stride);
  kernel.low.assign(size * stride, 0);
  kernel.high.assign(size * stride, 0);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t tap = 0; tap < real[i].size(); ++tap) {
      const std::int32_t weight = to_fixed(real[i][tap], kernel.shift);
      const auto low = static_cast<std::int16_t>(weight & 0xffff);
      const auto high = static_cast<std::int16_t>((weight - low) / 65536);
      kernel.low[i * stride + tap] = low;
      kernel.high[i * stride + tap] = high;
      kernel.wide |= high != 0;
    }
  }
  return kernel;
}

namespace {

// Rows of `bytes` bytes, each followed by the slack that the loops may touch.
class RowBuffer {
 public:
  RowBuffer(std::size_t rows, std::size_t bytes)
      : stride_((bytes + kSlackBytes - 1) / kSlackBytes * kSlackBytes + kSlackBytes),
        bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(rows * stride_)) {}
  std::size_t stride() const { return stride_; }
  std::uint8_t* operator[](std::size_t row) { return bytes_.get() + row * stride_; }

 private:
  std::size_t stride_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

// A frame's rows such that reading kSlackBytes beyond each is allowed: the last ones are copied.
class FrameRows {
 public:
  explicit FrameRows(const frames::Image& image)
      : rgb_(image.rgb.data()), row_bytes_(static_cast<std::size_t>(image.width) * 3) {
    const std::size_t rows = static_cast<std::size_t>(image.height);
    const std::size_t copied = std::min(rows, (kSlackBytes + row_bytes_ - 1) / row_bytes_);
    first_copied_ = rows - copied;
    tail_.resize(copied * row_bytes_ + kSlackBytes);
    std::memcpy(tail_.data(), rgb_ + first_copied_ * row_bytes_, copied * row_bytes_);
  }
  const std::uint8_t* operator[](std::size_t row) const {
    return row < first_copied_ ? rgb_ + row * row_bytes_
                               : tail_.data() + (row - first_copied_) * row_bytes_;
  }

 private:
  const std::uint8_t* rgb_;
  std::size_t row_bytes_, first_copied_ = 0;
  std::vector<std::uint8_t> tail_;
};

// Resamples rows `begin` to `end` of `in` into `out`, whose row 0 is row `begin`.
template <typename Rows>
void horizontal_pass(const Kernel& x, Rows& in, std::size_t begin, std::size_t end,
                     RowBuffer& out) {
  for (std::size_t row = begin; row < end; row += 4) {
    std::array<const std::uint8_t*, 4> from;
    std::array<std::uint8_t*, 4> to;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t at = std::min(row + i, end - 1);
      from[i] = in[at];
      to[i] = out[at - begin];
    }
    fastest_passes().horizontal(x, from, to);
  }
}

// `in` starts with row `begin` of what the kernel speaks of.
void vertical_pass(const Kernel& y, RowBuffer& in, std::size_t begin, std::size_t bytes,
                   std::uint8_t* out, std::size_t out_stride) {
  for (std::size_t row = 0; row < y.first.size(); ++row) {
    const std::size_t first = static_cast<std::size_t>(y.first[row]) - begin;
    fastest_passes().vertical(y, row, in[first], in.stride(), bytes, out + row * out_stride);
  }
}

}  // namespace

void resample_rgb(const frames::Image& image, const Kernel& x, const Kernel& y, bool vertical_first,
                  std::uint8_t* out, std::size_t out_stride) {
  const FrameRows rows(image);
  // Only the rows that the vertical pass will ask for.
  const std::size_t begin = static_cast<std::size_t>(y.first.front());
  const std::size_t end = static_cast<std::size_t>(y.first.back() + y.count.back());
  const std::size_t in_bytes = static_cast<std::size_t>(image.width) * 3;
  const std::size_t out_rows = y.first.size(), out_bytes = x.first.size() * 3;
  if (!vertical_first) {
    RowBuffer narrow(end - begin, out_bytes);
    horizontal_pass(x, rows, begin, end, narrow);
    vertical_pass(y, narrow, begin, out_bytes, out, out_stride);
    return;
  }
  RowBuffer padded(end - begin, in_bytes), low(out_rows, in_bytes), result(out_rows, out_bytes);
  for (std::size_t row = begin; row < end; ++row) {
    std::memcpy(padded[row - begin], rows[row], in_bytes);
  }
  vertical_pass(y, padded, begin, in_bytes, low[0], low.stride());
  horizontal_pass(x, low, 0, out_rows, result);
  for (std::size_t row = 0; row < out_rows; ++row) {
    std::memcpy(out + row * out_stride, result[row], out_bytes);
  }
}

}  // namespace coldframe::preprocess
