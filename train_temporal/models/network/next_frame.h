// A model on one more frame of a sequence: what it says of the frames so far, from a state that
// does not grow. Of models that need no whole sequence, and without dropout.
#pragma once

#include <limits>

#include "train_temporal/models/network/torch_operations.h"
#include "train_temporal/models/summary/running_summaries.h"

namespace coldframe::temporal {

struct FrameState {
  StateDict layers;         // what each layer over frames keeps
  std::int64_t frames = 0;  // with the one that comes
  // Sums over the frames, weighted by exp(score − highest score so far): the softmax in one pass
  // (Milakov and Gimelshein 2018, arXiv:1805.02867). In double, or long sequences would round away.
  torch::Tensor sum = {};  // [1, W]
  double weights = 0, highest = -std::numeric_limits<double>::infinity();
  RunningSummaries summaries = {};  // of the model `summary`
};

class NextFrame final : public TorchOperations {
 public:
  // features [1, D], time [1, kTimeColumns]
  NextFrame(const ModelConfig& config, const StateDict& tensors, const torch::Tensor& features,
            const torch::Tensor& time, FrameState& state)
      : TorchOperations(config, tensors, features, time), state_(state) {}

  Value clock() override;
  Value covariates() override;
  Value recur(const Value& x, std::int64_t layer) override;
  Value convolve(const Value& x, const std::string& name, std::int64_t width, std::int64_t taps,
                 std::int64_t dilation) override;
  Value attend(const Value& x) override;
  Value pool(const Value& x) override;

 private:
  // Zeros [rows, width] before the first frame.
  torch::Tensor& kept(const std::string& name, std::int64_t rows, std::int64_t width);

  FrameState& state_;
};

}  // namespace coldframe::temporal
