#include "extract/vit/positions/relative_positions.h"

namespace coldframe::vit {

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

}  // namespace coldframe::vit
