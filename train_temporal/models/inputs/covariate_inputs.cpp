#include "train_temporal/models/inputs/covariate_inputs.h"

#include <algorithm>

namespace coldframe::temporal {

const Architecture kCovariates{.name = "covariates",
                               .make = make<CovariateModel>,
                               .sees_frames = false,
                               .needs_whole_sequence = "it reads covariates, and no frame"};

void copy_covariates(const torch::Tensor& table, const Packing& batch, bool per_frame, float* out,
                     std::int64_t stride) {
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
  for (const std::int64_t reaching : per_frame ? batch.sequences : once) {
    for (std::size_t b = 0; b < static_cast<std::size_t>(reaching); ++b) copy(b);
  }
}

torch::Tensor covariates_of(const torch::Tensor& table, const Packing& batch, bool per_frame,
                            const torch::Device& device) {
  const auto rows = per_frame ? static_cast<std::int64_t>(batch.frame_rows.size()) : batch.size();
  torch::Tensor all = torch::empty({rows, table.size(1)});
  copy_covariates(table, batch, per_frame, all.data_ptr<float>(), table.size(1));
  return all.to(device);
}

CovariateModel::CovariateModel(const ModelConfig& config) : per_frame_(config.per_frame()) {
  project = register_module("project", torch::nn::Linear(config.covariates, config.hidden));
  head = register_module("head", torch::nn::Linear(config.hidden, config.classes));
}

torch::Tensor CovariateModel::forward(const torch::Tensor&, const SequenceBatch& batch,
                                      const Dropout& dropout) {
  const torch::Tensor x =
      covariates_of(covariates, batch, per_frame_, project->weight.device());  // [R, K]
  return head(dropout(torch::relu(project(x)), RandomPurpose::kHeadDropout,
                      per_frame_ ? batch.row_keys : batch.exam_keys));
}

}  // namespace coldframe::temporal
