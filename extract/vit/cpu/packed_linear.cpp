#include "extract/vit/cpu/packed_linear.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>

#include "extract/vit/cpu/tiles.h"

namespace coldframe::vit::cpu {

namespace {

constexpr std::int64_t kMostRows = 16, kMostColumns = 64;

// Rows of the input per pass over the weights: as many as half a megabyte holds, so that they stay
// in the second-level cache beside a panel.
std::int64_t rows_per_pass(std::int64_t rows, std::int64_t words) {
  const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << 19) / (words * 4), 96);
  const std::int64_t passes = (rows + most - 1) / most;
  return (rows + passes - 1) / passes;
}

// Words of the next panel that come nearer at each word of a row, so that all of it is there before
// this one's last tile ends. A power of two, as `columns` is: whole tiles cover the panel.
std::int64_t words_ahead(const Kernels& kernels, std::int64_t rows) {
  const std::int64_t tiles = tile_count(kernels, rows);
  const std::int64_t share = (kernels.columns + tiles - 1) / tiles;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(share)));
}

}  // namespace

std::int64_t padded_width(const Kernels& kernels, std::int64_t width) {
  return round_up(width, elements_per_word(kernels.element));
}

PackedLinear::PackedLinear(const Kernels& with, torch::ScalarType type, const torch::Tensor& weight,
                           const torch::Tensor& shift, const torch::Tensor& scale)
    : kernels(&with), out_width(weight.size(0)), out_columns(with.columns) {
  const std::int64_t in = weight.size(1), width = padded_width(with, in);
  in_words = width / elements_per_word(with.element);
  torch::Tensor scaled = scale.defined() ? weight * scale.unsqueeze(1) : weight;
  scaled = scaled.to(type).to(scalar_type(with.element));
  scaled = at::constant_pad_nd(scaled, {0, width - in}).contiguous();
  const std::int64_t padded = round_up(out_width, with.columns);
  panels = torch::empty({padded / with.columns, in_words, with.columns}, torch::kInt32);
  with.pack_transposed(static_cast<const Word*>(scaled.const_data_ptr()), in_words, out_width,
                       in_words, static_cast<Word*>(panels.data_ptr()));
  bias = torch::zeros({padded}, torch::kFloat32);
  if (shift.defined()) bias.narrow(0, 0, out_width).copy_(scale.defined() ? shift * scale : shift);
}

PackedLinear PackedLinear::gated(const Kernels& with, torch::ScalarType type,
                                 const torch::Tensor& weight, const torch::Tensor& shift) {
  const std::int64_t half = with.columns / 2, hidden = weight.size(0) / 2;
  const std::int64_t padded = round_up(hidden, half);
  // [2·hidden, n] -> [2·padded, n]: `half` rows of gates, as many of values, and so on.
  const auto in_turn = [&](const torch::Tensor& rows) {
    const std::int64_t n = rows.size(1);
    return at::constant_pad_nd(rows.view({2, hidden, n}), {0, 0, 0, padded - hidden})
        .view({2, padded / half, half, n})
        .transpose(0, 1)
        .reshape({2 * padded, n});
  };
  PackedLinear linear(with, type, in_turn(weight),
                      shift.defined() ? in_turn(shift.unsqueeze(1)).squeeze(1) : shift);
  linear.out_width = hidden;
  linear.out_columns = half;
  return linear;
}

void PackedLinear::apply(const void* in, std::int64_t rows, Epilogue finish, void* out,
                         std::int64_t out_stride) const {
  const std::int64_t element =
      finish == kernels->add ? 4 : kernels->element_bytes();  // bytes of one of `out`
  const auto* a = static_cast<const Word*>(in);
  const auto* weights = static_cast<const Word*>(panels.const_data_ptr());
  const float* shift = bias.const_data_ptr<float>();
  const std::int64_t pass = rows_per_pass(rows, in_words);
  for (std::int64_t first = 0; first < rows; first += pass) {
    const std::int64_t last = std::min(rows, first + pass);
    const std::int64_t step = words_ahead(*kernels, last - first);
    at::parallel_for(0, panels.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) float sums[kMostRows * kMostColumns];
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const std::int64_t column = panel * out_columns;
        const std::int64_t columns = std::min(out_columns, out_width - column);
        const Word* const words = weights + panel * kernels->columns * in_words;
        const Word* ahead = words + kernels->columns * in_words;
        const Word* const ahead_end = ahead + (panel + 1 < end ? kernels->columns * in_words : 0);
        for_each_tile(*kernels, first, last, [&](std::int64_t row, std::int64_t count) {
          const std::int64_t ahead_step = ahead < ahead_end ? step : 0;
          kernels->multiply(count, {a + row * in_words, in_words, words, in_words, sums,
                                    kernels->columns, ahead, ahead_step});
          ahead += ahead_step * in_words;
          finish({sums, kernels->columns, count, columns, shift + panel * kernels->columns,
                  static_cast<char*>(out) + (row * out_stride + column) * element, out_stride});
        });
      }
    });
  }
}

}  // namespace coldframe::vit::cpu
