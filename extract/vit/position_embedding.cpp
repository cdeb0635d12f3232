#include "extract/vit/position_embedding.h"

namespace coldframe::vit {

torch::Tensor resample_positions(const torch::Tensor& positions, std::int64_t prefix,
                                 std::int64_t grid, std::int64_t new_grid) {
  if (grid == new_grid) return positions;
  const std::int64_t width = positions.size(2);
  const torch::Tensor square = positions
                                   .slice(1, prefix)  // [1, grid², width]
                                   .reshape({1, grid, grid, width})
                                   .permute({0, 3, 1, 2});  // [1, width, grid, grid]
  const torch::Tensor resampled =
      at::_upsample_bicubic2d_aa(square, {new_grid, new_grid}, /*align_corners=*/false,
                                 /*scales_h=*/std::nullopt, /*scales_w=*/std::nullopt)
          .permute({0, 2, 3, 1})
          .reshape({1, new_grid * new_grid, width});
  return torch::cat({positions.slice(1, 0, prefix), resampled}, 1).contiguous();
}

}  // namespace coldframe::vit
