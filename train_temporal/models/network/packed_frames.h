// A model on a packed batch in LibTorch: all frames at once, for training and for prediction. The
// rows of a tensor are frames, or exams.
#pragma once

#include <map>
#include <optional>

#include "common/torch/safetensors.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/network/operations.h"

namespace coldframe::temporal {

class PackedFrames final : public Operations {
 public:
  // `covariates`: SequenceModel::covariates. All must live on.
  PackedFrames(const ModelConfig& config, const StateDict& tensors, const torch::Tensor& features,
               const PackedBatch& batch, const Dropout& dropout, const torch::Tensor& covariates,
               bool training);

  Value features() override;
  TimeInputs times() override;
  Value clock() override;
  Value covariates() override;
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
  Value dropout(const Value& x, RandomPurpose layer) override;
  Value recur(const Value& x, std::int64_t layer) override;
  Value convolve(const Value& x, const std::string& name, std::int64_t width, std::int64_t taps,
                 std::int64_t dilation) override;
  Value attend(const Value& x) override;
  Value pool(const Value& x) override;

 private:
  // The way from packed rows [N, …] to [B, T, …] and back, and what each row's place turns it by.
  struct Grid {
    torch::Tensor to_grid;  // [B · T] rows; behind the end of a sequence any, which `mask` hides
    torch::Tensor to_rows;  // [N]
    torch::Tensor mask;     // [B, 1, 1, T], true for frames; undefined where all are
    torch::Tensor cosine, sine;  // [N, 1, 1, d / 2]
  };

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
  torch::Tensor decaying(const torch::Tensor& x, std::int64_t layer);
  torch::Tensor recurrent_on_cuda(const torch::Tensor& x, at::TensorList weights,
                                  const torch::Tensor& start) const;
  torch::Tensor last_of(const torch::Tensor& states) const;
  torch::Tensor in_grid(const torch::Tensor& rows) const;
  torch::Tensor rows_before(std::int64_t back) const;
  torch::Tensor places() const;
  const Grid& grid();

  const StateDict& tensors_;             // of the model
  const torch::Tensor features_, time_;  // [N, D] and [N, kTimeColumns] of N frames
  const PackedBatch& batch_;
  const Dropout& dropout_;
  const torch::Tensor& covariates_;
  const bool training_;
  const torch::Device device_;
  const std::vector<std::int64_t> first_;  // packed row of each step, [T + 1]; the last entry is N
  bool of_exams_ = false;                  // after pooling, and without frames
  std::map<std::int64_t, torch::Tensor> rows_before_;
  std::optional<Grid> grid_;
};

// The most heads of an even width of kHeadWidth or more; one, where there is no such division.
std::int64_t attention_heads(std::int64_t hidden);
// Radians that one place turns each pair of a head by, [d / 2] float64.
torch::Tensor rotary_speeds(std::int64_t hidden);

}  // namespace coldframe::temporal
