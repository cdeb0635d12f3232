// The operations of which temporal models are made. A model describes its arithmetic once, as a
// function over them; each interpreter says what they do:
// - TensorList lists the tensors: what a model registers, what its file holds, how many there are.
// - PackedFrames is LibTorch on a packed batch, to train and to predict.
//
// FusedPass is the same arithmetic of a plain GRU written out, forward and back, in memory that
// serves again: autograd takes six times as long (tests/benchmarks/train). Tests hold it to this.
#pragma once

#include <string>
#include <vector>

#include "common/torch/tensor.h"
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

}  // namespace coldframe::temporal
