// The temporal model, with a GRU or an LSTM. Names of its tensors (as in a model file; PyTorch's
// layouts throughout):
//   feature_mean, feature_std [D]        standardisation over the training part's frames
//   time_mean, time_std [2]              with time: of log interval and seconds since first frame
//   project.weight [H, D], project.bias
//   gru.weight_ih_l0 [3H, H or H + 3], gru.weight_hh_l0, … as torch.nn.GRU names them,
//   or lstm.weight_ih_l0 [4H, …], … as torch.nn.LSTM does
//   time2vec.weight [8, 1], .bias       with that encoding: H + 11 inputs
//   decay_l0.weight [H, 1], .bias        with that encoding, one for each layer
//   attention.weight [1, H'], .bias      with attention pooling; H' = H or 2H (bidirectional)
//   head.weight [C, H'], head.bias
#pragma once

#include <torch/nn/modules/rnn.h>
#include <vector>

#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

inline constexpr std::int64_t kTimeInputs = 3;  // interval, since first, unknown
inline constexpr std::int64_t kTime2VecInputs = 8;

class GruModel final : public SequenceModel {
 public:
  explicit GruModel(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const SequenceBatch& batch,
                        const Dropout& dropout) override;
  torch::Tensor step(const torch::Tensor& features, const torch::Tensor& time,
                     std::vector<torch::Tensor>& state) override;
  void set_statistics(const InputStatistics& statistics) override;
  // True for the model that FusedGru knows.
  bool has_kernels() const {
    return !gru.is_empty() && config_.time_encoding == TimeEncoding::kLog;
  }

 private:
  // All layers on packed rows [N, I]: the last one's states [N, H'], and its final states [dirs, B,
  // H].
  std::pair<torch::Tensor, torch::Tensor> recur(torch::Tensor x, const SequenceBatch& batch,
                                                const Dropout& dropout);
  // One layer whose state h decays to γ ∘ h before every frame, γ = exp(−max(0, w · interval + b)).
  std::pair<torch::Tensor, torch::Tensor> decaying_layer(const torch::Tensor& x,
                                                         const SequenceBatch& batch,
                                                         at::TensorList weights,
                                                         torch::nn::Linear& rate);
  // γ of each frame, [N, H], from its time [N, kTimeColumns].
  torch::Tensor decay_factors(const torch::Tensor& time, torch::nn::Linear& rate);
  torch::Tensor time_features(const torch::Tensor& time);
  torch::Tensor pool(const torch::Tensor& packed, const torch::Tensor& last,
                     const SequenceBatch& batch);

  ModelConfig config_;
  torch::Tensor feature_mean, feature_std, time_mean, time_std;
  torch::nn::Linear project{nullptr}, attention{nullptr}, head{nullptr};
  torch::nn::GRU gru{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear time2vec{nullptr};
  std::vector<torch::nn::Linear> decay;
};

// x: [N, W] packed. Returns [B, T, W] with zeros behind the end of each sequence.
torch::Tensor pad_packed(const torch::Tensor& x, const SequenceBatch& batch);
// [B, T, W] → [B, W]
torch::Tensor mean_over_frames(const torch::Tensor& padded, const SequenceBatch& batch);
// Weighted by the softmax of the scores [B, T, 1] of each exam's frames.
torch::Tensor attention_over_frames(const torch::Tensor& padded, const torch::Tensor& scores,
                                    const SequenceBatch& batch);

}  // namespace coldframe::temporal
