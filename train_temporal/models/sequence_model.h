// Every model that train_temporal fits is a SequenceModel: packed features in, logits out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/data/input_statistics.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/mixed_precision.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

class SequenceModel : public torch::nn::Module {
 public:
  // features: [N, D] float32, packed as the batch says. Returns outputs [B, C] in the batch's
  // order, or [N, C] for each frame where the configuration says so.
  virtual torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                                const Dropout& dropout) = 0;
  virtual void set_statistics(const InputStatistics& statistics) = 0;
  virtual bool uses_features() const { return true; }
  // The parameters that make_model() draws, by name, each uniformly within ± a bound.
  virtual std::map<std::string, double> drawn_weights() const { return {}; }
  // True where times of frames matter though the configuration has none.
  virtual bool sees_times() const { return false; }

  // forward() with what is known of the exams besides their frames: behind the features, or as a
  // term of its own (models/inputs/covariate_inputs.h).
  torch::Tensor outputs(torch::Tensor features, const PackedBatch& batch, const Dropout& dropout);

  Inputs inputs = Inputs::kLevel;  // which outputs() make of the features
  MixedPrecision precision;        // of compute_logits() while gradients are wanted
  // [exams, K] on the CPU, of every exam of the dataset, as the model's card encodes it; undefined
  // where the model takes none.
  torch::Tensor covariates;
  torch::nn::Linear covariate_head{nullptr};  // [C, K], where they go beside the head
};

// Weights start as the model says, and those that are drawn as `seed` alone says.
std::shared_ptr<SequenceModel> make_model(const ModelConfig& config, std::uint64_t seed);

// Logits in evaluation mode; no features are gathered for models that use none.
torch::Tensor compute_logits(SequenceModel& model, const Dataset& dataset, const PackedBatch& batch,
                             const Dropout& dropout = {});

}  // namespace coldframe::temporal
