#include "train_temporal/models/inputs/covariate_inputs.h"

#include <algorithm>

#include "common/torch/to_device.h"

namespace coldframe::temporal {

void copy_covariates(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                     float* out, std::int64_t stride) {
  const std::int64_t width = table.size(1);
  const float* values = table.const_data_ptr<float>();
  const auto row_of = [&](std::size_t exam) {
    return values + static_cast<std::int64_t>(exam) * width;
  };
  const auto copy = [&](std::size_t b) {
    const float* own = row_of(batch.exams[b]);
    if (batch.mixed()) {
      const float* partner = row_of(batch.partners[b]);
      const auto share = static_cast<float>(batch.shares[b]);
      for (std::int64_t i = 0; i < width; ++i) out[i] = share * own[i] + (1 - share) * partner[i];
    } else {
      std::copy_n(own, width, out);
    }
    out += stride;
  };
  const std::vector<std::int64_t> once = {batch.size()};
  for (const std::int64_t reaching : per_frame ? batch.batch_sizes : once) {
    for (std::size_t b = 0; b < static_cast<std::size_t>(reaching); ++b) copy(b);
  }
}

torch::Tensor covariates_of(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                            const torch::Device& device) {
  const auto rows = per_frame ? static_cast<std::int64_t>(batch.frame_rows.size()) : batch.size();
  torch::Tensor all = torch::empty({rows, table.size(1)});
  copy_covariates(table, batch, per_frame, all.data_ptr<float>(), table.size(1));
  return to_device(all, device);
}

}  // namespace coldframe::temporal
