// Models that read an exam's frames in their order and at their times. Around what sets them apart,
// encode(), they are the same. Names of their tensors (as in a model file; PyTorch's layouts
// throughout):
//   time_mean, time_std [2]              with time: of log interval and seconds since first frame
//   those of FrameInputs, which make H of D features
//   time2vec.weight [8, 1], .bias        with that encoding
//   …                                    encode()'s own, from I = H, H + 3 or H + 11 inputs
//   attention.weight [1, W], .bias       with attention pooling; W = H or 2H (bidirectional)
//   head.weight [C, W], head.bias
#pragma once

#include <vector>

#include "train_temporal/models/inputs/frame_inputs.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

inline constexpr std::int64_t kTimeInputs = 3;  // interval, since first, unknown
inline constexpr std::int64_t kTime2VecInputs = 8;

// I: a frame's projection and what the model is told of its time.
std::int64_t ordered_inputs(const ModelConfig& config);

class OrderedModel : public SequenceModel {
 public:
  torch::Tensor forward(const torch::Tensor& features, const SequenceBatch& batch,
                        const Dropout& dropout) final;
  torch::Tensor step(const torch::Tensor& features, const torch::Tensor& time,
                     std::vector<torch::Tensor>& state) final;
  void set_statistics(const InputStatistics& statistics) final;

 protected:
  explicit OrderedModel(const ModelConfig& config);
  // Ends a constructor: tensors are drawn and stored in the order in which they are registered.
  void register_head();

  // Gives pooling its row of each frame, [N, W], from inputs [N, I].
  virtual torch::Tensor encode(torch::Tensor x, const SequenceBatch& batch,
                               const Dropout& dropout) = 0;
  // Encodes one more frame, [1, I] → [1, W]; see SequenceModel::step().
  virtual torch::Tensor encode_next(torch::Tensor x, const torch::Tensor& time,
                                    std::vector<torch::Tensor>& state);

  ModelConfig config_;
  FrameInputs inputs_;
  torch::Tensor time_mean, time_std;

 private:
  torch::Tensor time_features(const torch::Tensor& time);
  torch::Tensor pool(const torch::Tensor& states, const SequenceBatch& batch);

  torch::nn::Linear time2vec{nullptr}, attention{nullptr}, head{nullptr};
};

// x: [N, W] packed. Returns [B, T, W] with zeros behind the end of each sequence.
torch::Tensor pad_packed(const torch::Tensor& x, const SequenceBatch& batch);
// [B, T, W] → [B, W]
torch::Tensor mean_over_frames(const torch::Tensor& padded, const SequenceBatch& batch);
// Weighted by the softmax of the scores [B, T, 1] of each exam's frames.
torch::Tensor attention_over_frames(const torch::Tensor& padded, const torch::Tensor& scores,
                                    const SequenceBatch& batch);

// The first packed row of each step, [T + 1]; the last entry is N.
std::vector<std::int64_t> first_rows(const SequenceBatch& batch);

}  // namespace coldframe::temporal
