#include "extract/vit/positions.h"

#include <cmath>

namespace coldframe::vit {

namespace {

// square [1, width, grid, grid] -> [1, width, rows, columns]
torch::Tensor resized(const torch::Tensor& square, const Grid& new_grid, Resampling resampling) {
  const std::vector<std::int64_t> size{new_grid.rows, new_grid.columns};
  switch (resampling) {
    case Resampling::kBicubicAntialiased:
      return at::_upsample_bicubic2d_aa(square, size, /*align_corners=*/false);
    case Resampling::kBicubic:
      return at::upsample_bicubic2d(square, size, /*align_corners=*/false);
    case Resampling::kBilinearAntialiased:
      return at::_upsample_bilinear2d_aa(square, size, /*align_corners=*/false);
  }
  return {};
}

// The place of each patch along an axis of `grid` patches, [grid].
torch::Tensor places(const Architecture& shape, std::int64_t grid) {
  torch::Tensor at = torch::arange(grid, torch::kFloat32);
  if (shape.rotary == Rotary::kDinov3)
    return 2 * ((at + 0.5 + shape.rotary_offset) / static_cast<double>(grid)) - 1;
  at = at + shape.rotary_offset;
  if (shape.rotary_grid > 0)
    at = at / static_cast<double>(grid) * static_cast<double>(shape.rotary_grid);
  return at;
}

// [patches, 2]: the places of patches in the order of rows, along the first and the second axis.
torch::Tensor patch_places(const Architecture& shape, const Grid& grid) {
  const auto [rows, columns] = grid;
  const torch::Tensor row =
      places(shape, rows).view({rows, 1}).expand({rows, columns}).reshape({-1});
  const torch::Tensor column =
      places(shape, columns).view({1, columns}).expand({rows, columns}).reshape({-1});
  return shape.rotary_xy ? torch::stack({column, row}, 1) : torch::stack({row, column}, 1);
}

// [head width / 4]: radians per place.
torch::Tensor frequencies_of(const Architecture& shape) {
  return (shape.rotary == Rotary::kDinov3 ? 2 * M_PI : 1.0) / periods(shape);
}

// Angles of pairs [..., head width / 2] -> of numbers [..., head width].
torch::Tensor for_each_number(const torch::Tensor& pairs, bool half) {
  return half ? torch::cat({pairs, pairs}, -1) : pairs.repeat_interleave(2, -1);
}

Rotation rotation_by(const torch::Tensor& angles, const Architecture& shape) {
  return {for_each_number(angles.sin(), shape.rotary_half),
          for_each_number(angles.cos(), shape.rotary_half), shape.rotary_half,
          shape.prefix_tokens()};
}

// x [..., d] with each pair (a, b) as (-b, a).
torch::Tensor quarter_turned(const torch::Tensor& x, bool half) {
  if (half) {
    const auto parts = x.chunk(2, -1);
    return torch::cat({-parts[1], parts[0]}, -1);
  }
  const torch::Tensor pairs = x.unflatten(-1, {-1, 2});
  return torch::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

}  // namespace

torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, const Grid& new_grid, Resampling resampling) {
  if (Grid(grid) == new_grid) return positions;
  const std::int64_t width = positions.size(2);
  const torch::Tensor square = positions
                                   .slice(1, prefix)  // [1, grid², width]
                                   .reshape({1, grid, grid, width})
                                   .permute({0, 3, 1, 2});  // [1, width, grid, grid]
  const torch::Tensor resampled = resized(square, new_grid, resampling)
                                      .permute({0, 2, 3, 1})
                                      .reshape({1, new_grid.patches(), width});
  return torch::cat({positions.slice(1, 0, prefix), resampled}, 1).contiguous();
}

torch::Tensor relative_bias(const torch::Tensor& table, std::int64_t grid) {
  const std::int64_t patches = grid * grid, rows = table.size(0), side = 2 * grid - 1;
  const torch::Tensor at = torch::arange(patches);
  const torch::Tensor row = at.floor_divide(grid), column = at.remainder(grid);
  const auto differences = [&](const torch::Tensor& place) {
    return place.unsqueeze(1) - place.unsqueeze(0) + grid - 1;  // query's minus key's, from 0
  };
  torch::Tensor index = torch::empty({1 + patches, 1 + patches}, torch::kInt64);
  index.slice(0, 1).slice(1, 1).copy_(differences(row) * side + differences(column));
  index.select(0, 0).fill_(rows - 3);
  index.select(1, 0).fill_(rows - 2);
  index[0][0] = rows - 1;
  return table.index_select(0, index.flatten().to(table.device()))
      .view({1 + patches, 1 + patches, -1})
      .permute({2, 0, 1})
      .contiguous();
}

std::vector<Rotation> rotations(const Architecture& shape, const Grid& grid,
                                const torch::Tensor& frequencies) {
  std::vector<Rotation> all;
  if (shape.rotary == Rotary::kNone)
    return std::vector<Rotation>(static_cast<std::size_t>(shape.depth));
  if (shape.rotary == Rotary::kMixed) {
    for (std::int64_t block = 0; block < shape.depth; ++block)
      all.push_back(mixed_rotation(shape, grid, frequencies, block));
    return all;
  }
  const torch::Tensor at = patch_places(shape, grid);                                 // [N, 2]
  const torch::Tensor angles = (at.unsqueeze(2) * frequencies_of(shape)).flatten(1);  // [N, d/2]
  return std::vector<Rotation>(static_cast<std::size_t>(shape.depth), rotation_by(angles, shape));
}

Rotation mixed_rotation(const Architecture& shape, const Grid& grid,
                        const torch::Tensor& frequencies, std::int64_t block) {
  const torch::Tensor at = patch_places(shape, grid).to(frequencies.device());  // [N, 2]
  const torch::Tensor of_block = frequencies.select(1, block).unsqueeze(2);     // [2, h, 1, d/2]
  return rotation_by(
      at.select(1, 0).unsqueeze(1) * of_block[0] + at.select(1, 1).unsqueeze(1) * of_block[1],
      shape);
}

torch::Tensor periods(const Architecture& shape) {
  const std::int64_t count = shape.width / shape.heads / 4;
  const torch::Tensor exponent = torch::arange(count, torch::kFloat32) / static_cast<double>(count);
  return torch::pow(torch::full({}, shape.rotary_temperature), exponent);
}

torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation) {
  if (!rotation.sine.defined()) return x;
  const torch::Tensor patches = x.slice(2, rotation.prefix);
  // In float32: angles of many patches lose too much in half the bits.
  const torch::Tensor turned =
      patches * rotation.cosine + quarter_turned(patches, rotation.half) * rotation.sine;
  return torch::cat({x.slice(2, 0, rotation.prefix), turned.to(x.scalar_type())}, 2);
}

}  // namespace coldframe::vit
