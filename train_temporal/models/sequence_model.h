// SequenceModel is the interface of all models that train_temporal fits: packed features to logits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/data/input_statistics.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {

class SequenceModel : public torch::nn::Module {
 public:
  // features: [N, D] float32, packed like `batch`. Returns outputs [B, C] in the order of the
  // batch, or [N, C] for per-frame configurations.
  virtual torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                                const Dropout& dropout) = 0;
  virtual void set_statistics(const InputStatistics& statistics) = 0;
  virtual bool uses_features() const { return true; }
  // The parameters that make_model() draws uniformly within ± a bound: name to bound.
  virtual std::map<std::string, double> drawn_weights() const { return {}; }
  // True if frame times matter even though the configuration has none.
  virtual bool sees_times() const { return false; }

  // forward() with the exams' covariates, appended to the features or as a separate term.
  torch::Tensor outputs(torch::Tensor features, const PackedBatch& batch, const Dropout& dropout);

  Inputs inputs = Inputs::kLevel;  // the transformation of the features in outputs()
  MixedPrecision precision;        // of compute_logits() when gradients are enabled
  // [exams, K] on the CPU, for every exam of the dataset, encoded as the model's card states;
  // undefined if the model takes none.
  torch::Tensor covariates;
  torch::nn::Linear covariate_head{nullptr};  // [C, K], for late fusion
};

// Initialises weights as the model defines; the random ones depend on `seed` only.
std::shared_ptr<SequenceModel> make_model(const ModelConfig& config, std::uint64_t seed);

// Logits in evaluation mode; does not gather features for models that use none.
torch::Tensor compute_logits(SequenceModel& model, const Dataset& dataset, const PackedBatch& batch,
                             const Dropout& dropout = {});

// Feeds K covariates (data/covariates.h) to any model: concatenated to each frame's features, or
// added to the outputs through a linear layer, as if a linear head saw them next to the pooled
// frames (late fusion).

// The late-fusion term starts at 0 and learns at this multiple of the learning rate: each covariate
// is a single input, whereas all inputs of the pooled frames together move an output. At 8, the
// model memorised the images of 120 exams before it learnt the covariates.
inline constexpr double kCovariateRate = 30;

// Writes a row of K per exam of a batch in its order, or per frame (that of its exam), rows
// `stride` apart. Mixup mixes covariates, too. table: [E, K]
void copy_covariates(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                     float* out, std::int64_t stride);
torch::Tensor covariates_of(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                            const torch::Device& device);

// A model described in terms of Operations: a module with the tensors that its description lists,
// under PyTorch's names.

class Network final : public SequenceModel {
 public:
  explicit Network(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                        const Dropout& dropout) override;
  // Covariates appended to the features are standardised already; a blank model sees them, too.
  // Their deviation is set to √(K / D), so that all K together weigh as much in the projection as
  // the D features.
  void set_statistics(const InputStatistics& statistics) override;
  bool uses_features() const override { return config_.architecture->sees_frames; }
  std::map<std::string, double> drawn_weights() const override;
  const ModelConfig& config() const { return config_; }

 private:
  ModelConfig config_;
  StateDict tensors_;  // parameters and buffers
};

}  // namespace coldframe::temporal
