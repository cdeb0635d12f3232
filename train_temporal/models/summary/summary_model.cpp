#include "train_temporal/models/summary/summary_model.h"

#include <cmath>
#include <limits>
#include <map>

#include "train_temporal/models/registry.h"

namespace coldframe::temporal {

const Architecture kSummary{
    .name = "summary", .make = make<SummaryModel>, .per_frame = false, .by_steps = false};

std::span<const NamedModel> summary_models() {
  static constexpr NamedModel kSummaryNames[] = {
      {.name = kSummaryModel,
       .architecture = &kSummary,
       .about = "a linear model of one number of each feature over the frames",
       .compared = true,
       .learns_frames = false,
       .names_covariates = true},
  };
  return kSummaryNames;
}

SummaryModel::SummaryModel(const ModelConfig& config) : config_(config) {
  const std::vector<std::int64_t> table = {config.outputs, config.dimension};
  const std::vector<std::int64_t> row = {config.dimension};
  feature_mean = register_buffer("feature_mean", torch::zeros(row));
  feature_std = register_buffer("feature_std", torch::ones(row));
  family = register_buffer("family", torch::zeros({config.outputs}));
  per_second = register_buffer("per_second", torch::zeros({1}));
  summary_mean = register_buffer("summary_mean", torch::zeros(table));
  summary_std = register_buffer("summary_std", torch::ones(table));
  head = register_module("head", torch::nn::Linear(config.dimension, config.outputs));
}

std::map<std::string, double> SummaryModel::drawn_weights() const {
  const double bound = 1 / std::sqrt(static_cast<double>(config_.dimension));
  return {{"head.weight", bound}, {"head.bias", bound}};
}

void SummaryModel::set_statistics(const InputStatistics& statistics) {
  feature_mean.copy_(statistics.feature_mean);
  feature_std.copy_(statistics.feature_std);
}

bool SummaryModel::sees_times() const {
  const auto slope = static_cast<double>(Family::kSlope);
  return per_second.item<float>() > 0 && (family == slope).any().item<bool>();
}

torch::Tensor SummaryModel::summaries(Family of, const torch::Tensor& features,
                                      const PackedBatch& batch) {
  torch::Tensor seen = features;
  if (config_.only_stream >= 0) {
    torch::Tensor hidden = torch::ones({features.size(1)}, torch::kBool);
    const std::int64_t width = config_.stream_width();
    hidden.narrow(0, config_.only_stream * width, width).fill_(false);
    seen =
        features.masked_fill(hidden.to(features.device()), std::numeric_limits<float>::quiet_NaN());
  }
  return summarise(of, seen, batch, {per_second.item<float>() > 0, !config_.streams.empty()});
}

torch::Tensor SummaryModel::forward(const torch::Tensor& features, const PackedBatch& batch,
                                    const Dropout&) {
  std::map<Family, torch::Tensor> known;
  std::vector<torch::Tensor> outputs;
  for (std::int64_t c = 0; c < config_.outputs; ++c) {
    const auto of = static_cast<Family>(family[c].item<float>());
    torch::Tensor& own = known[of];
    if (!own.defined()) own = summaries(of, features, batch);
    const torch::Tensor x = ((own - summary_mean[c]) / summary_std[c]).nan_to_num(0.0);  // [B, D]
    outputs.push_back(x.matmul(head->weight[c]) + head->bias[c]);
  }
  return torch::stack(outputs, 1);
}

}  // namespace coldframe::temporal
