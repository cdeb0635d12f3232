// What the operations on each frame are in LibTorch; the rows of a tensor are frames, or exams.
#pragma once

#include <span>

#include "common/torch/safetensors.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/network/operations.h"

namespace coldframe::temporal {

class TorchOperations : public Operations {
 public:
  Value features() override;
  TimeInputs times() override;
  Value linear(const Value& x, const std::string& name, std::int64_t width) override;
  Value norm(const Value& x, const std::string& name) override;
  Value add(const Value& a, const Value& b) override { return of(a.tensor + b.tensor); }
  Value multiply(const Value& a, const Value& b) override { return of(a.tensor * b.tensor); }
  Value one_minus(const Value& x) override { return of(1 - x.tensor); }
  Value gelu(const Value& x) override { return of(torch::gelu(x.tensor)); }
  Value relu(const Value& x) override { return of(torch::relu(x.tensor)); }
  Value sine(const Value& x) override { return of(x.tensor.sin()); }
  Value tanh(const Value& x) override { return of(x.tensor.tanh()); }
  Value columns(const Value& x, std::int64_t from, std::int64_t width) override {
    return of(x.tensor.narrow(1, from, width));
  }
  Value join(const std::vector<Value>& parts) override;
  Value weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
              const Value& there) override;

 protected:
  // The tensors of the model; inputs: features [N, D] and times [N, kTimeColumns] of N frames.
  TorchOperations(const ModelConfig& config, const StateDict& tensors, torch::Tensor features,
                  torch::Tensor time)
      : Operations(config),
        tensors_(tensors),
        features_(std::move(features)),
        time_(std::move(time)) {}

  static Value of(torch::Tensor tensor) {
    const std::int64_t width = tensor.size(1);
    return {width, std::move(tensor)};
  }
  const torch::Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  // The weights of a recurrent layer, in each direction those from inputs, from the state, and both
  // biases.
  std::vector<torch::Tensor> recurrent_weights(std::int64_t layer) const;
  bool is_lstm() const { return config_.architecture->gates == 4; }
  // What the state of a GRU decays by before each frame, [N, H]: γ = exp(−max(0, w · interval +
  // b)). Intervals are counted in the geometric mean of the training part's; one that is unknown is
  // 0.
  torch::Tensor decay_factors(std::int64_t layer) const;
  // x: [N, taps · in], the inputs of all taps, the farthest first.
  Value convolved(const torch::Tensor& x, const std::string& name) const;
  virtual void add_noise(torch::Tensor&) {}

  const StateDict& tensors_;
  const torch::Tensor features_, time_;
};

}  // namespace coldframe::temporal
