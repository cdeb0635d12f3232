// The operations of which temporal models consist. A model describes its computation once, as a
// function over them; interpreters define what they do:
// - TensorList lists the tensors: what a model registers, what its file holds, how many there are.
// - PackedFrames is LibTorch on a packed batch, to train and to predict.
//
// FusedPass is an explicit forward and backward pass of the plain GRU, in reused memory: autograd
// takes six times as long (tests/benchmarks/train). Tests compare it with PackedFrames.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"
#include "train_temporal/models/dropout.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

// A value per frame or, after pooling, per exam. An interpreter fills in the members it needs.
struct Value {
  std::int64_t width = 0;  // numbers per row
  torch::Tensor tensor = {};
};

// The time inputs: the first V = config.time_values() values of TimeColumn, standardised [V];
// whether each is known [V]; and whether the frame's time is known [1].
struct TimeInputs {
  Value value, known, time_known;
};

class Operations {
 public:
  explicit Operations(const ModelConfig& config) : config_(config) {}
  virtual ~Operations() = default;

  // Standardised features, [D], with noise in training. Missing streams are 0. The columns of S
  // streams are the features of each, then S flags that state whether each has a frame there.
  virtual Value features() = 0;
  virtual TimeInputs times() = 0;
  virtual Value clock() = 0;       // clock_descriptor(); for a frame, also its position and time
  virtual Value covariates() = 0;  // [K]

  // Tensors name.weight [width, in] and name.bias; without the dot if the name ends in `_`.
  virtual Value linear(const Value& x, const std::string& name, std::int64_t width) = 0;
  virtual Value norm(const Value& x, const std::string& name) = 0;  // LayerNorm
  virtual Value add(const Value& a, const Value& b) = 0;
  virtual Value multiply(const Value& a, const Value& b) = 0;  // a width of 1 broadcasts
  virtual Value one_minus(const Value& x) = 0;
  virtual Value gelu(const Value& x) = 0;
  virtual Value relu(const Value& x) = 0;
  virtual Value sine(const Value& x) = 0;
  virtual Value tanh(const Value& x) = 0;
  virtual Value columns(const Value& x, std::int64_t from, std::int64_t width) = 0;
  virtual Value join(const std::vector<Value>& parts) = 0;
  virtual Value dropout(const Value& x, RandomPurpose) { return x; }
  // Σ_s softmax_s(scores) ∘ values over the streams that are present in `there` [S]; 0 if none is.
  virtual Value weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
                      const Value& there) = 0;

  // One recurrent layer of the architecture (GRU or LSTM) over frames, [W].
  virtual Value recur(const Value& x, std::int64_t layer) = 0;
  // Causal dilated convolution with name.weight [width, in, taps]; zeros before the first frame.
  virtual Value convolve(const Value& x, const std::string& name, std::int64_t width,
                         std::int64_t taps, std::int64_t dilation) = 0;
  // Attention over all frames, from queries, keys and values [3H] with rotary position embedding:
  // [H]
  virtual Value attend(const Value& x) = 0;
  // Pools frames to exams, as pool_of() states.
  virtual Value pool(const Value& x) = 0;

  // Fixes the position of tensors with this name prefix in the list; others come at their first
  // use.
  virtual void place(const std::string&) {}

 protected:
  static std::string weight_of(const std::string& name) { return part_of(name, "weight"); }
  static std::string bias_of(const std::string& name) { return part_of(name, "bias"); }

  const ModelConfig& config_;

 private:
  static std::string part_of(const std::string& name, const char* part) {
    return name.ends_with('_') ? name + part : name + "." + part;
  }
};

// The whole model: outputs [C] per exam, or per frame.
Value outputs_of(Operations& operations, const ModelConfig& config);
// Its last part: dropout and the head.
Value head_of(Operations& operations, const ModelConfig& config, const Value& x);
TemporalPool pool_of(const ModelConfig& config);

// Mixed precision: matrix products in half precision, weights, sums and losses in float32, as
// LibTorch's autocast decides per operation (docs.pytorch.org, "Automatic Mixed Precision").

struct MixedPrecision {
  torch::ScalarType type = torch::kFloat32;  // float32: none; bfloat16 or float16
  double gradient_scale = 1;                 // of gradients in half precision, against underflow

  bool active() const { return type != torch::kFloat32; }
};

// Enables autocast on this thread during its lifetime, without LibTorch's cache of half-precision
// weight copies. All threads share that cache, and the first thread that leaves autocast clears it:
// a fit's memory would depend on parallel fits. And a cached copy that was made without a graph
// does not lead back to its weight: a later pass with a graph would use it, and the weight would
// silently get no gradient.
class Autocast {
 public:
  Autocast(const MixedPrecision& precision, const torch::Device& device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool active_;
  torch::DeviceType device_;
  bool cached_;  // before
};

// Under autocast, a copy of the weight in autocast's type, for weights used at every frame:
// autocast would make a copy for each. Else the weight itself.
torch::Tensor cast_once(const torch::Tensor& weight);

// Casts to float32; the backward pass scales the gradient for the layers before.
torch::Tensor leave_mixed_precision(const torch::Tensor& outputs, const MixedPrecision& precision);

// Runs a model on a packed batch with LibTorch, all frames at once, for training and for
// prediction. The rows of a tensor are frames or exams.

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
  // Maps packed rows [N, …] to [B, T, …] and back; holds the rotation of each row's position
  // (RoPE).
  struct Grid {
    torch::Tensor to_grid;  // [B · T] rows; arbitrary after the end of a sequence, hidden by `mask`
    torch::Tensor to_rows;       // [N]
    torch::Tensor mask;          // [B, 1, 1, T], true for frames; undefined without padding
    torch::Tensor cosine, sine;  // [N, 1, 1, d / 2]
  };

  static Value of(torch::Tensor tensor) {
    const std::int64_t width = tensor.size(1);
    return {width, std::move(tensor)};
  }
  const torch::Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  // The weights of a recurrent layer; for each direction input weights, state weights and both
  // biases.
  std::vector<torch::Tensor> recurrent_weights(std::int64_t layer) const;
  bool is_lstm() const { return config_.architecture->gates == 4; }
  // The decay factors of a GRU's state before each frame, [N, H]: γ = exp(−max(0, w · interval +
  // b)). Intervals are in units of the training part's geometric mean; unknown ones are 0.
  torch::Tensor decay_factors(std::int64_t layer) const;
  // x: [N, taps · in], the inputs of all taps, the earliest first.
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
  const torch::Tensor features_, time_;  // [N, D] and [N, kTimeColumns]
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

// The max number of heads with an even width ≥ kHeadWidth; 1 if there is no such division.
std::int64_t attention_heads(std::int64_t hidden);
// RoPE frequencies: radians per position for each pair of a head, [d / 2] float64.
torch::Tensor rotary_speeds(std::int64_t hidden);

// Lists the tensors of a model from its description: names and shapes, in the order in which they
// are registered, initialised and held by the optimizer. Also lists the random numbers of a step.

struct TensorRow {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_buffer = false;
  double value = 0;  // initial value of all elements,
  double bound = 0;  // unless they are drawn uniformly within ± bound

  double size() const;
};

// Without the covariate term next to the head. Empty if the model is not a network.
std::vector<TensorRow> tensors_of(const ModelConfig& config);

// Random numbers of a training step, per frame or exam: `width` values of dropout or noise.
struct DrawnRow {
  RandomPurpose purpose;
  std::int64_t width;
  bool of_exams;

  bool is_noise() const { return purpose == RandomPurpose::kInputNoise; }
};
std::vector<DrawnRow> draws_of(const ModelConfig& config);

class TensorList final : public Operations {
 public:
  using Operations::Operations;
  std::vector<TensorRow> take();
  std::vector<DrawnRow> take_draws() { return std::move(draws_); }

  Value features() override;
  TimeInputs times() override;
  Value clock() override;
  Value covariates() override;
  Value linear(const Value& x, const std::string& name, std::int64_t width) override;
  Value norm(const Value& x, const std::string& name) override;
  Value add(const Value& a, const Value&) override { return a; }
  Value multiply(const Value& a, const Value&) override { return a; }
  Value one_minus(const Value& x) override { return x; }
  Value gelu(const Value& x) override { return x; }
  Value relu(const Value& x) override { return x; }
  Value sine(const Value& x) override { return x; }
  Value tanh(const Value& x) override { return x; }
  Value columns(const Value&, std::int64_t, std::int64_t width) override { return {width}; }
  Value join(const std::vector<Value>& parts) override;
  Value weigh(const std::vector<Value>& values, const std::vector<Value>&, const Value&) override {
    return values.front();
  }
  Value dropout(const Value& x, RandomPurpose purpose) override;
  Value recur(const Value& x, std::int64_t layer) override;
  Value convolve(const Value& x, const std::string& name, std::int64_t width, std::int64_t taps,
                 std::int64_t dilation) override;
  Value attend(const Value& x) override { return {x.width / 3}; }
  Value pool(const Value& x) override;
  void place(const std::string& prefix) override { places_[prefix] = next_++; }

 private:
  void add_row(TensorRow row);
  void add_drawn(const std::string& name, std::vector<std::int64_t> shape, std::int64_t fan_in);
  void add_statistics(const std::string& name, std::int64_t width);  // name_mean, name_std

  std::vector<std::pair<std::size_t, TensorRow>> rows_;  // by place
  std::map<std::string, std::size_t> places_;
  std::size_t next_ = 0;
  std::vector<DrawnRow> draws_;
  bool of_exams_ = false;  // after pooling, and without frames
};

}  // namespace coldframe::temporal
