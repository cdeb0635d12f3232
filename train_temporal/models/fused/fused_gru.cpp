#include "train_temporal/models/fused/fused_gru.h"

#include <algorithm>

#include "train_temporal/models/kernels/kernels.h"
#include "train_temporal/models/network/network.h"

namespace coldframe::temporal {
namespace {

constexpr std::int64_t kTransposeRows = 64;  // a turn of prepare()

}  // namespace

bool FusedGru::supports(const SequenceModel& model) {
  const auto* network = dynamic_cast<const Network*>(&model);
  return network != nullptr && network->config().has_kernels() &&
         model.parameters().front().device().is_cpu();
}

FusedGru::FusedGru(const SequenceModel& model, const ModelConfig& config) : config_(config) {
  for (const auto& item : model.named_parameters()) tensors_.insert(item.key(), item.value());
  for (const auto& item : model.named_buffers()) tensors_.insert(item.key(), item.value());
  feature_scale_ = torch::empty_like(tensor("feature_std"));
  project_by_column_ = by_column("project.weight");
  head_by_column_ = by_column("head.weight");
  covariates_ = model.covariates;
  if (config.frame_covariates) {  // whose mean is 0
    covariates_ =
        covariates_ / tensor("feature_std").narrow(0, config.features(), config.covariates);
  }
  if (!model.covariate_head.is_empty())
    covariate_head_by_column_ = by_column("covariate_head.weight");
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const char* end : {"", "_reverse"}) {
      if (*end != '\0' && !config.bidirectional) continue;
      const std::string of = "_l" + std::to_string(layer) + end;
      gru_.push_back({values("gru.weight_ih" + of), values("gru.weight_hh" + of),
                      values("gru.bias_ih" + of), values("gru.bias_hh" + of),
                      by_column("gru.weight_ih" + of), by_column("gru.weight_hh" + of)});
    }
  }
}

const torch::Tensor& FusedGru::tensor(const std::string& name) const {
  return tensors_[name];
}

const float* FusedGru::values(const std::string& name) const {
  return tensor(name).const_data_ptr<float>();
}

const float* FusedGru::by_column(const std::string& name) {
  const torch::Tensor& from = tensor(name);
  const std::int64_t rows = from.size(0), columns = from.size(1);
  transposed_.push_back(torch::empty({columns, rows}));
  float* to = transposed_.back().data_ptr<float>();
  for (std::int64_t row = 0; row < rows; row += kTransposeRows) {
    transposes_.push_back({std::min(kTransposeRows, rows - row), columns,
                           values(name) + row * columns, to + row, rows});
  }
  return to;
}

void FusedGru::prepare(ThreadTeam& team) {
  const float* deviation = values("feature_std");
  float* scale = feature_scale_.data_ptr<float>();
  for (std::int64_t i = 0; i < config_.dimension; ++i) scale[i] = 1 / deviation[i];
  team.run(transposes_.size(), [&](std::size_t i) {
    const Transpose& t = transposes_[i];
    kernels().transpose(t.rows, t.columns, t.from, t.to, t.to_row);
  });
}

GruShape FusedGru::shape() const {
  const std::int64_t inputs = config_.hidden + (config_.time ? config_.time_inputs() : 0);
  return {inputs, config_.hidden, config_.layers, config_.bidirectional};
}

FusedGru::Gradients FusedGru::gradients(float* base) const {
  const auto of = [&](const std::string& name) { return base + tensor(name).storage_offset(); };
  Gradients result{of("project.weight"), of("project.bias"), nullptr, nullptr,
                   of("head.weight"),    of("head.bias"),    nullptr, {}};
  if (covariate_head_by_column_ != nullptr) result.covariate_head = of("covariate_head.weight");
  if (config_.pool == TemporalPool::kAttention) {
    result.attention = of("attention.weight");
    result.attention_bias = of("attention.bias");
  }
  for (const GruWeights& weights : gru_) {
    const float* start = gru_.front().input;
    const float* origin = start - tensor("gru.weight_ih_l0").storage_offset();
    const auto at = [&](const float* parameter) { return base + (parameter - origin); };
    result.gru.push_back(
        {at(weights.input), at(weights.hidden), at(weights.input_bias), at(weights.hidden_bias)});
  }
  return result;
}

}  // namespace coldframe::temporal
