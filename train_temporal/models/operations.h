// The operations of which temporal models are made. A model describes its arithmetic once, as a
// function over them; each interpreter says what they do:
// - TensorList lists the tensors: what a model registers, what its file holds, how many there are.
// - PackedFrames is LibTorch on a packed batch, to train and to predict.
//
// FusedPass is the same arithmetic of a plain GRU written out, forward and back, in memory that
// serves again: autograd takes six times as long (tests/benchmarks/train). Tests hold it to this.
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

// What is known of each frame, or after pooling of each exam. An interpreter fills what it needs.
struct Value {
  std::int64_t width = 0;  // numbers of each
  torch::Tensor tensor = {};
};

// The inputs of time: the first V = config.time_values() values of TimeColumn, standardised [V];
// whether each is known [V], and whether the frame's time is [1].
struct TimeInputs {
  Value value, known, time_known;
};

class Operations {
 public:
  explicit Operations(const ModelConfig& config) : config_(config) {}
  virtual ~Operations() = default;

  // Standardised features, [D], with noise in training. What a stream lacks is 0. Columns of S
  // streams are those of each, then whether each has a frame there.
  virtual Value features() = 0;
  virtual TimeInputs times() = 0;
  virtual Value clock() = 0;       // clock_descriptor(), and of a frame its place and time
  virtual Value covariates() = 0;  // [K]

  // name.weight [width, in], name.bias; a name that ends in `_` takes no dot.
  virtual Value linear(const Value& x, const std::string& name, std::int64_t width) = 0;
  virtual Value norm(const Value& x, const std::string& name) = 0;  // LayerNorm
  virtual Value add(const Value& a, const Value& b) = 0;
  virtual Value multiply(const Value& a, const Value& b) = 0;  // a width of 1 goes with any
  virtual Value one_minus(const Value& x) = 0;
  virtual Value gelu(const Value& x) = 0;
  virtual Value relu(const Value& x) = 0;
  virtual Value sine(const Value& x) = 0;
  virtual Value tanh(const Value& x) = 0;
  virtual Value columns(const Value& x, std::int64_t from, std::int64_t width) = 0;
  virtual Value join(const std::vector<Value>& parts) = 0;
  virtual Value dropout(const Value& x, RandomPurpose) { return x; }
  // Σ_s softmax_s(scores) ∘ values over the streams that are `there` [S]; 0 where none is.
  virtual Value weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
                      const Value& there) = 0;

  // One layer of the architecture's recurrence over frames: GRU or LSTM, [W].
  virtual Value recur(const Value& x, std::int64_t layer) = 0;
  // name.weight [width, in, taps]: each frame and those `dilation` apart before it; zeros before
  // the first.
  virtual Value convolve(const Value& x, const std::string& name, std::int64_t width,
                         std::int64_t taps, std::int64_t dilation) = 0;
  // Attention among all frames, of queries, keys and values [3H], turned by their places: [H]
  virtual Value attend(const Value& x) = 0;
  // From frames to exams, as pool_of() says.
  virtual Value pool(const Value& x) = 0;

  // The tensors whose names begin so come here in the order of all; else where they are used first.
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

// The whole of a model: outputs [C] of each exam, or of each frame.
Value outputs_of(Operations& operations, const ModelConfig& config);
// Its end: dropout, and the head.
Value head_of(Operations& operations, const ModelConfig& config, const Value& x);
TemporalPool pool_of(const ModelConfig& config);

// Matrix products in half precision while weights, sums and losses stay float32, as LibTorch's
// autocast decides for each operation (docs.pytorch.org, "Automatic Mixed Precision").

struct MixedPrecision {
  torch::ScalarType type = torch::kFloat32;  // float32: none; bfloat16 or float16
  double gradient_scale = 1;  // of what flows back through half precision, against underflow

  bool active() const { return type != torch::kFloat32; }
};

// Autocast on this thread while it lives, without LibTorch's cache of the half-precision copies of
// weights. That cache is one for all threads, and the first thread that leaves autocast empties it:
// a fit's bytes would depend on the fits beside it. And a copy that was made without a graph has no
// way back to its weight: what runs again with a graph would take it, and the weight would get no
// gradient, without a word.
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

// In autocast a copy in its type, for a weight that is taken at every frame: autocast would make
// one for each. Else the weight itself.
torch::Tensor cast_once(const torch::Tensor& weight);

// Back in float32; the gradient is scaled on its way to what comes before.
torch::Tensor leave_mixed_precision(const torch::Tensor& outputs, const MixedPrecision& precision);

// A model on a packed batch in LibTorch: all frames at once, for training and for prediction. The
// rows of a tensor are frames, or exams.

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

// The tensors of a model, from its description: names and shapes, in the order in which they are
// registered, drawn and kept by the optimizer. Also what its steps draw at random.

struct TensorRow {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_buffer = false;
  double value = 0;  // of all its elements before training,
  double bound = 0;  // unless they are drawn, uniformly within ± this

  double size() const;
};

// Without the term of covariates beside the head. None of what is no network.
std::vector<TensorRow> tensors_of(const ModelConfig& config);

// Random numbers that a training step draws for each frame or exam: `width` of dropout or noise.
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
