#include "train_temporal/models/network/network.h"

#include <cmath>

#include "common/text/text.h"
#include "train_temporal/models/network/packed_frames.h"
#include "train_temporal/models/network/tensor_list.h"

namespace coldframe::temporal {
namespace {

// The module that owns a tensor of this name, and its own name there: "tcn.0.conv1.weight".
std::pair<torch::nn::Module*, std::string> owner_of(torch::nn::Module& root,
                                                    const std::string& name) {
  std::vector<std::string> parts = split(name, '.');
  torch::nn::Module* module = &root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto children = module->named_children();
    const auto* known = children.find(parts[i]);
    module = known != nullptr
                 ? known->get()
                 : module->register_module(parts[i], std::make_shared<torch::nn::Module>()).get();
  }
  return {module, parts.back()};
}

}  // namespace

Network::Network(const ModelConfig& config) : config_(config) {
  for (const TensorRow& row : tensors_of(config)) {
    const auto [module, name] = owner_of(*this, row.name);
    const torch::Tensor value = torch::full(row.shape, row.value, torch::kFloat32);
    tensors_[row.name] = row.is_buffer ? module->register_buffer(name, value)
                                       : module->register_parameter(name, value);
  }
}

std::map<std::string, double> Network::drawn_weights() const {
  std::map<std::string, double> bounds;
  for (const TensorRow& row : tensors_of(config_))
    if (row.bound > 0) bounds[row.name] = row.bound;
  return bounds;
}

torch::Tensor Network::forward(const torch::Tensor& features, const PackedBatch& batch,
                               const Dropout& dropout) {
  PackedFrames frames(config_, tensors_, features, batch, dropout, covariates, is_training());
  return outputs_of(frames, config_).tensor;
}

void Network::set_statistics(const InputStatistics& statistics) {
  // A model without `elapsed` sees all but the last value of each.
  const auto set = [&](const char* name, const torch::Tensor& value) {
    if (const auto found = tensors_.find(name); found != tensors_.end())
      found->second.copy_(value.narrow(0, 0, found->second.size(0)));
  };
  set("time_mean", statistics.time_mean);
  set("time_std", statistics.time_std);
  set("clock_mean", statistics.clock_mean);
  set("clock_std", statistics.clock_std);
  if (!uses_features()) return;
  const std::int64_t features = config_.seen_features();
  tensors_.at("feature_mean").zero_();
  tensors_.at("feature_mean").narrow(0, 0, features).copy_(statistics.feature_mean);
  torch::Tensor deviation = tensors_.at("feature_std");
  deviation.narrow(0, 0, features).copy_(statistics.feature_std);
  if (config_.blank) deviation.fill_(kBlankDeviation);
  if (!config_.frame_covariates) return;
  const double share = double(config_.covariates) / double(features);
  deviation.narrow(0, features, config_.covariates).fill_(std::sqrt(share));
}

}  // namespace coldframe::temporal
