#include "train_temporal/data/changes.h"

#include <vector>

namespace coldframe::temporal {

namespace {

// For each packed row [N, D] that of its exam's first frame, or of the frame before it.
torch::Tensor rows_before(const torch::Tensor& features, const PackedBatch& batch, bool first) {
  if (batch.even()) {
    const torch::Tensor grid = features.reshape({-1, batch.size(), features.size(1)});  // [T, B, D]
    const torch::Tensor start = grid.narrow(0, 0, 1);
    if (first) return start.expand_as(grid).reshape_as(features);
    return torch::cat({start, grid.narrow(0, 0, grid.size(0) - 1)}).view_as(features);
  }
  // Exams stand in one order in every step, the longest first.
  std::vector<std::int64_t> rows;
  std::int64_t last_step = 0;
  for (const std::int64_t reaching : batch.batch_sizes) {
    const std::int64_t row = std::ssize(rows);
    for (std::int64_t i = 0; i < reaching; ++i)
      rows.push_back(first || row == 0 ? i : last_step + i);
    last_step = row;
  }
  return features.index_select(0, torch::tensor(rows, torch::kInt64).to(features.device()));
}

}  // namespace

torch::Tensor with_changes(const torch::Tensor& features, const PackedBatch& batch, Inputs inputs) {
  if (inputs == Inputs::kLevel) return features;
  const torch::Tensor first = rows_before(features, batch, /*first=*/true);
  const torch::Tensor before = rows_before(features, batch, /*first=*/false);
  if (inputs == Inputs::kChange) return torch::cat({features - first, features - before}, 1);
  return torch::cat({features, features - first, features - before}, 1);
}

}  // namespace coldframe::temporal
