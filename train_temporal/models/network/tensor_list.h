// The tensors of a model, from its description: names and shapes, in the order in which they are
// registered, drawn and kept by the optimizer. Also what its steps draw at random.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "train_temporal/models/network/operations.h"

namespace coldframe::temporal {

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
