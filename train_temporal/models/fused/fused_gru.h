// The network of a GRU on the CPU without autograd: the same model, with a way back that is written
// out and memory that is used again in every step. Tests hold it to Network::forward. It is no
// autograd function within the network: the slices of a batch go back side by side, each into a
// gradient of its own (training/fused_step.h), and autograd's engine takes all of a device's ways
// back in one thread and sums into one gradient.
#pragma once

#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/models/gru_layer.h"
#include "train_temporal/models/sequence_model.h"
#include "train_temporal/models/thread_team.h"

namespace coldframe::temporal {

// The parameters as the passes read them. They stay the model's own.
class FusedGru {
 public:
  // True for a network on the CPU with a GRU and no encoding of time but the plain one.
  static bool supports(const SequenceModel& model);
  FusedGru(const SequenceModel& model, const ModelConfig& config);

  // To be called whenever the parameters have changed.
  void prepare(ThreadTeam& team);

  // The gradients of all parameters in a buffer laid out as the storage they share (see AdamW).
  struct Gradients {
    float *project, *project_bias, *attention, *attention_bias, *head, *head_bias;
    float* covariate_head;  // null where there is none
    std::vector<GruGradients> gru;
  };
  Gradients gradients(float* base) const;

  const ModelConfig& config() const { return config_; }
  GruShape shape() const;
  // Rows of outputs: exams, or frames.
  std::int64_t output_rows(const PackedBatch& batch) const {
    return config_.per_frame() ? static_cast<std::int64_t>(batch.frame_rows.size()) : batch.size();
  }

 private:
  friend class FusedPass;
  struct Transpose {
    std::int64_t rows, columns;
    const float* from;
    float* to;
    std::int64_t to_row;
  };
  const torch::Tensor& tensor(const std::string& name) const;
  const float* values(const std::string& name) const;
  const float* by_column(const std::string& name);

  ModelConfig config_;
  torch::OrderedDict<std::string, torch::Tensor> tensors_;  // parameters and buffers
  std::vector<Transpose> transposes_;
  std::vector<torch::Tensor> transposed_;
  torch::Tensor feature_scale_;  // [D] 1 / feature_std
  std::vector<GruWeights> gru_;
  const float *project_by_column_, *head_by_column_;
  torch::Tensor covariates_;  // SequenceModel::covariates, as the projection takes them
  const float* covariate_head_by_column_ = nullptr;
};

// A slice of a batch on its way through the model and back.
class FusedPass {
 public:
  explicit FusedPass(const FusedGru& model);

  // Outputs [R, C] of the batch, in its order, with R = output_rows(); they stay until the next
  // call.
  const float* forward(const Dataset& dataset, const PackedBatch& batch, const Dropout& dropout);
  // Adds to `gradients`, or writes them when `fresh`. d_logits: [R, C]
  void backward(const PackedBatch& batch, const float* d_logits,
                const FusedGru::Gradients& gradients, bool fresh);

 private:
  PackedSteps steps(const PackedBatch& batch) const;
  void gather(const Dataset& dataset, const PackedBatch& batch, const Dropout& dropout);
  void gather_rows(const Dataset& dataset, std::span<const std::int64_t> rows, Buffer& to);
  void add_covariates(const PackedBatch& batch, std::int64_t rows, float* logits);
  void project(const PackedBatch& batch, const Dropout& dropout);
  void add_time(const PackedBatch& batch);
  void draw_layer_masks(const PackedBatch& batch, const Dropout& dropout);
  void pool(const PackedBatch& batch);
  void pool_attention(const PackedBatch& batch);
  void pool_back(const PackedBatch& batch, const FusedGru::Gradients& gradients, bool fresh);
  void pool_attention_back(const PackedBatch& batch, const FusedGru::Gradients& gradients,
                           bool fresh);

  const FusedGru& model_;
  GruShape shape_;
  bool dropped_ = false;
  GruPass gru_;
  Buffer features_, partners_;                 // [N, D]
  Buffer x_, pooled_, logits_;                 // [N, I], [R, W], [R, C]
  Buffer projection_mask_, head_mask_;         // [N, H], [R, W]
  Buffer d_pooled_, d_output_, d_last_, d_x_;  // [R, W], [N, W], [2, B, H], [N, I]
  Buffer attention_, d_attention_;             // [N]
  Buffer covariates_;                          // [R, K]
  std::vector<Buffer> layer_masks_;
  std::vector<const float*> layer_mask_values_, d_last_values_;
};

}  // namespace coldframe::temporal
