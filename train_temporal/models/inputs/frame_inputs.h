// A frame's features on their way into a model: standardised over the training part's frames, with
// noise in training, projected. Their tensors in the model:
//   feature_mean, feature_std [D]         project.weight [H, D], project.bias
// Frames of S streams have D = S · d + S columns: the features of each stream, and behind them
// whether it has a frame there (cache/read/merged_streams.h). What is missing counts as the mean.
// Projected side by side, or weighted against each other (gated multimodal units, Arevalo et al.
// 2017, arXiv:1702.01992, with a softmax, since streams may be more than two):
//   [v_s, g_s] = fusion.s(f_s)     x = Σ_s softmax_s(g_s) ∘ tanh(v_s) over the streams that are
//   there fusion.0.weight [2H, d], .bias, … in place of project
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_temporal/data/input_statistics.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

class FrameInputs {
 public:
  // The tensors become the model's.
  FrameInputs(torch::nn::Module& model, const ModelConfig& config);
  // Covariates behind the features are standardised already, and seen by a blank model, too; their
  // deviation is √(K / D), by which all K together weigh as much in the projection as the D
  // features do.
  void set_statistics(const InputStatistics& statistics);
  // features: [N, D]; keys: [N], of the rows. Returns [N, H].
  torch::Tensor operator()(const torch::Tensor& features, std::span<const std::uint64_t> keys,
                           const Dropout& dropout);

 private:
  torch::Tensor weigh_streams(const torch::Tensor& x);

  ModelConfig config_;
  torch::Tensor mean_, deviation_;
  torch::nn::Linear project_{nullptr};
  std::vector<torch::nn::Linear> fusion_;
};

// Standardised inputs x [N, D] with 0 for what is missing, and for all streams but
// config.only_stream, if there is one.
torch::Tensor without_missing(const torch::Tensor& x, const ModelConfig& config);

}  // namespace coldframe::temporal
