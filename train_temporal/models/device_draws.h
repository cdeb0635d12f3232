// Dropout and noise as kernels().drop() and add_noise() draw them on a CPU, to the bit, by
// LibTorch's operations: what a device needs is drawn where it is, not copied to it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::temporal {

// [R, width], 0 or `scale`. starts: [R]
torch::Tensor draw_mask(const std::vector<std::uint64_t>& starts, std::int64_t width,
                        std::uint16_t threshold, float scale, const torch::Device& device);

// [R, width], what is added. starts: [R]
torch::Tensor draw_noise(const std::vector<std::uint64_t>& starts, std::int64_t width,
                         float deviation, const torch::Device& device);

// Their parts. starts: [R] int64. Bits [R, width] int16, of which a mask of them or noise is made;
// the noise's table [kQuantiles] float.
torch::Tensor drawn_bits(const torch::Tensor& starts, std::int64_t width);
torch::Tensor mask_of(const torch::Tensor& bits, std::uint16_t threshold, float scale);
torch::Tensor noise_table(float deviation, const torch::Device& device);
torch::Tensor noise_of(const torch::Tensor& bits, const torch::Tensor& table);

}  // namespace coldframe::temporal
