// The GRU's baselines: frames without order, and metadata without frames.
#pragma once

#include "train_temporal/models/inputs/frame_inputs.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

extern const Architecture kMean, kAttention, kClock;

// Mean over frames, plain or by attention (Ilse et al. 2018), of what a hidden layer (GELU, smooth
// as integrated gradients want it) makes of each frame's projected features: the GRU's width and
// regularisation without its memory, so that it loses for want of the order alone. `single` is this
// model on one frame, or of targets per frame on each frame by itself. Tensors: those
// of FrameInputs; hidden.weight [H, H], hidden.bias (linear
// models: none); attention.weight [1, H], .bias with attention; head.weight [C, H], head.bias.
class PooledModel final : public SequenceModel {
 public:
  explicit PooledModel(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const SequenceBatch& batch,
                        const Dropout& dropout) override;
  torch::Tensor step(const torch::Tensor& features, const torch::Tensor& time,
                     std::vector<torch::Tensor>& state) override;
  void set_statistics(const InputStatistics& statistics) override;

 private:
  bool per_frame_;
  FrameInputs inputs_;
  torch::nn::Linear hidden{nullptr}, attention{nullptr}, head{nullptr};
};

inline constexpr std::int64_t kClockHidden = 32;
inline constexpr std::int64_t kClockFrameInputs = 3;  // place, seconds since first, unknown

// An MLP on clock_descriptor(). Tensors: clock_mean, clock_std [F]; project.weight [32, F],
// project.bias; head.weight [C, 32], head.bias. Per frame with F + 3 inputs, the frame's place and
// time being the last, and time_mean, time_std [2].
class ClockModel final : public SequenceModel {
 public:
  explicit ClockModel(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const SequenceBatch& batch,
                        const Dropout& dropout) override;
  void set_statistics(const InputStatistics& statistics) override;
  bool uses_features() const override { return false; }

 private:
  torch::Tensor of_frames(const torch::Tensor& exams, const SequenceBatch& batch);

  bool per_frame_;
  torch::Tensor clock_mean, clock_std, time_mean, time_std;
  torch::nn::Linear project{nullptr}, head{nullptr};
};

}  // namespace coldframe::temporal
