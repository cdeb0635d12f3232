// Every model that train_temporal fits is a SequenceModel: packed features in, logits out.
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
  // term of its own.
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

// The covariates of exams (data/covariates.h) reach a model so: their K numbers stand behind the
// features of every frame, or a linear term of them is added to the outputs, which is what they
// would be to a linear head beside the pooled frames (late fusion). Any model takes them so.

// The term beside the head begins at 0 and learns at this multiple of the learning rate: each of
// its inputs stands alone, where an output moves by as many inputs as the pooled frames have. At 8
// the images of 120 exams were learnt by heart before the covariates were.
inline constexpr double kCovariateRate = 30;

// A row of K for each exam of a batch in its order, or for each frame that of its exam, rows
// `stride` apart; exams that are mixed have mixed covariates. table: [E, K]
void copy_covariates(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                     float* out, std::int64_t stride);
torch::Tensor covariates_of(const torch::Tensor& table, const PackedBatch& batch, bool per_frame,
                            const torch::Device& device);

// A model whose arithmetic is described over operations: a module with the tensors that its
// description lists, under PyTorch's names.

class Network final : public SequenceModel {
 public:
  explicit Network(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                        const Dropout& dropout) override;
  // Covariates behind the features are standardised already, and seen by a blank model, too; their
  // deviation is √(K / D), by which all K together weigh as much in the projection as the D
  // features do.
  void set_statistics(const InputStatistics& statistics) override;
  bool uses_features() const override { return config_.architecture->sees_frames; }
  std::map<std::string, double> drawn_weights() const override;
  const ModelConfig& config() const { return config_; }

 private:
  ModelConfig config_;
  StateDict tensors_;  // parameters and buffers
};

}  // namespace coldframe::temporal
