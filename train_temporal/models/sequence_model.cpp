#include "train_temporal/models/sequence_model.h"

#include "train_temporal/models/inputs/covariate_inputs.h"

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

}  // namespace coldframe::temporal
