#include "train_temporal/data/changes.h"

#include <vector>

namespace coldframe::temporal {

torch::Tensor with_changes(const torch::Tensor& features, const PackedBatch& batch, Inputs inputs) {
  if (inputs == Inputs::kLevel) return features;
  // Exams stand in one order in every step, the longest first.
  std::vector<std::int64_t> first, before;  // packed rows, [N]
  std::int64_t last_step = 0;
  for (const std::int64_t reaching : batch.batch_sizes) {
    const auto row = static_cast<std::int64_t>(first.size());
    for (std::int64_t i = 0; i < reaching; ++i) {
      first.push_back(i);
      before.push_back(row == 0 ? i : last_step + i);
    }
    last_step = row;
  }
  const auto minus = [&](const std::vector<std::int64_t>& rows) {
    const torch::Tensor at = torch::tensor(rows, torch::kInt64).to(features.device());
    return features - features.index_select(0, at);
  };
  if (inputs == Inputs::kChange) return torch::cat({minus(first), minus(before)}, 1);
  return torch::cat({features, minus(first), minus(before)}, 1);
}

}  // namespace coldframe::temporal
