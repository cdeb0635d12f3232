#include "extract/vit/positions/position_embedding.h"

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

}  // namespace coldframe::vit
