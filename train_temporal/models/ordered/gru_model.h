// A GRU or an LSTM over frames. Its own tensors:
//   gru.weight_ih_l0 [3H, I], gru.weight_hh_l0, … as torch.nn.GRU names them,
//   or lstm.weight_ih_l0 [4H, I], … as torch.nn.LSTM does
//   decay_l0.weight [H, 1], .bias        with that encoding of time, one for each layer
#pragma once

#include <torch/nn/modules/rnn.h>
#include <vector>

#include "train_temporal/models/ordered/ordered_model.h"

namespace coldframe::temporal {

extern const Architecture kGru, kLstm;

class GruModel final : public OrderedModel {
 public:
  explicit GruModel(const ModelConfig& config);
  bool has_kernels() const { return config_.has_kernels(); }

 private:
  torch::Tensor encode(torch::Tensor x, const SequenceBatch& batch,
                       const Dropout& dropout) override;
  torch::Tensor encode_next(torch::Tensor x, const torch::Tensor& time,
                            std::vector<torch::Tensor>& state) override;
  // One layer whose state h decays to γ ∘ h before every frame, γ = exp(−max(0, w · interval + b)).
  torch::Tensor decaying_layer(const torch::Tensor& x, const SequenceBatch& batch,
                               at::TensorList weights, torch::nn::Linear& rate);
  // γ of each frame, [N, H], from its time [N, kTimeColumns].
  torch::Tensor decay_factors(const torch::Tensor& time, torch::nn::Linear& rate);

  torch::nn::GRU gru{nullptr};
  torch::nn::LSTM lstm{nullptr};
  std::vector<torch::nn::Linear> decay;
};

}  // namespace coldframe::temporal
