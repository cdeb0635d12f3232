#include "train_temporal/models/sequence_model.h"

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "common/torch/to_device.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {

namespace {

// Uniform in ±bound, from (seed, number of the parameter, position).
void fill_uniform(torch::Tensor& parameter, double bound, std::uint64_t seed,
                  std::uint64_t number) {
  CounterRandom random({seed, static_cast<std::uint64_t>(RandomPurpose::kWeights), number});
  torch::Tensor values = torch::empty(parameter.sizes());
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53;  // [0, 1)
    out[i] = static_cast<float>((2 * unit - 1) * bound);
  }
  parameter.copy_(values);
}

void draw_weights(SequenceModel& model, std::uint64_t seed) {
  torch::NoGradGuard no_grad;
  const std::map<std::string, double> bounds = model.drawn_weights();
  std::uint64_t number = 0;
  for (auto& item : model.named_parameters())
    if (const auto bound = bounds.find(item.key()); bound != bounds.end())
      fill_uniform(item.value(), bound->second, seed, number++);
}

bool takes_covariates_at_head(const ModelConfig& config) {
  return config.covariates > 0 && !config.frame_covariates && config.architecture->sees_frames;
}

// Comes last, so that all other weights start as they do without it.
void add_covariate_head(SequenceModel& model, const ModelConfig& config) {
  const auto options = torch::nn::LinearOptions(config.covariates, config.outputs).bias(false);
  model.covariate_head = model.register_module("covariate_head", torch::nn::Linear(options));
  torch::NoGradGuard no_grad;
  model.covariate_head->weight.zero_();
}

// Gives the value of a missing feature, [D]; undefined where none can be.
torch::Tensor mean_features(const SequenceModel& model, const Dataset& dataset) {
  if (dataset.streams == 0) return {};
  return model.named_buffers()["feature_mean"].narrow(0, 0, dataset.features.size(1));
}

}  // namespace

torch::Tensor SequenceModel::outputs(torch::Tensor features, const PackedBatch& batch,
                                     const Dropout& dropout) {
  if (inputs != Inputs::kLevel) features = with_changes(features, batch, inputs);
  if (!covariates.defined() || (!uses_features() && covariate_head.is_empty()))
    return forward(features, batch, dropout);
  const torch::Device device = batch.tensors.time.device();
  if (covariate_head.is_empty()) {
    const torch::Tensor rows = covariates_of(covariates, batch, true, device);
    features = torch::cat({features, rows}, 1);  // [N, D + K]; those without are not kept
    return forward(features, batch, dropout);
  }
  const torch::Tensor outputs = forward(features, batch, dropout);
  const bool per_frame = outputs.size(0) > batch.size();  // of one frame each both are the same
  return outputs + covariate_head(covariates_of(covariates, batch, per_frame, device));
}

std::shared_ptr<SequenceModel> make_model(const ModelConfig& config, std::uint64_t seed) {
  const std::shared_ptr<SequenceModel> model = config.architecture->make(config);
  model->inputs = config.inputs;
  draw_weights(*model, seed);
  if (takes_covariates_at_head(config)) add_covariate_head(*model, config);
  return model;
}

torch::Tensor compute_logits(SequenceModel& model, const Dataset& dataset, const PackedBatch& batch,
                             const Dropout& dropout) {
  torch::Tensor features;
  if (model.uses_features())
    features = gather_features(dataset, batch,
                               batch.mixed() ? mean_features(model, dataset) : torch::Tensor());
  const MixedPrecision precision =
      torch::GradMode::is_enabled() ? model.precision : MixedPrecision();
  torch::Tensor outputs;
  {
    const Autocast autocast(precision, dataset.device);
    outputs = model.outputs(std::move(features), batch, dropout);
  }
  return leave_mixed_precision(outputs, precision);
}

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
