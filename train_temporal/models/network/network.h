// A model whose arithmetic is described over operations: a module with the tensors that its
// description lists, under PyTorch's names.
#pragma once

#include "common/torch/safetensors.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

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
