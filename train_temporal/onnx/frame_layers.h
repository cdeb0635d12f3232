// The layers of a temporal model that go over frames, as operators of a growing graph: the base of
// what temporal_graph() walks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/torch/safetensors.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

inline constexpr const char *kBatch = "batch", *kFrames = "frames";

class FrameLayers {
 protected:
  FrameLayers(const temporal::ModelConfig& config, StateDict tensors)
      : config_(config), tensors_(std::move(tensors)) {}

  // x [batch, frames, H] with what the model is told of the times, which become an input.
  Value with_time(const Value& x);
  // x [batch, frames, I] -> [batch, frames, H]
  Value encode(Value x);

  Value tensor(const std::string& name) { return graph_.constant(tensors_.at(name)); }
  Value linear(const Value& x, const std::string& name) {
    return graph_.linear(x, tensors_.at(name + ".weight"), tensors_.at(name + ".bias"));
  }
  Value plus(const Value& a, const Value& b) { return graph_.add("Add", {a, b}); }
  Value minus(const Value& a, const Value& b) { return graph_.add("Sub", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.add("Mul", {a, b}); }
  Value divided(const Value& a, const Value& b) { return graph_.add("Div", {a, b}); }
  Value squeezed(const Value& x, std::int64_t axis) {
    return graph_.add("Squeeze", {x, graph_.constant(Integers{axis})});
  }
  Value unsqueezed(const Value& x, std::int64_t axis) {
    return graph_.add("Unsqueeze", {x, graph_.constant(Integers{axis})});
  }
  Value summed(const Value& x, std::int64_t axis) {
    return graph_.add("ReduceSum", {x, graph_.constant(Integers{axis})},
                      {{"keepdims", std::int64_t{0}}});
  }
  Value state(const std::string& name, std::int64_t width) {
    return graph_.input(name, {kBatch, width});
  }
  void next(const Value& value, const std::string& name, std::int64_t width) {
    graph_.output(value, "next_" + name, {kBatch, width});
  }
  Value joined(const std::vector<Value>& parts) {
    return graph_.add("Concat", parts, {{"axis", std::int64_t{-1}}});
  }

  const temporal::ModelConfig& config_;
  StateDict tensors_;
  Graph graph_{"temporal_model"};

 private:
  Value recur(const Value& x, std::int64_t layer);
  Value convolve(const Value& x, std::int64_t layer);
  Value transform(Value x);
  std::pair<Value, Value> turns(const Value& x);
  Value attend(const Value& x, const std::string& name, const Value& cosine, const Value& sine);
  Value norm(const Value& x, const std::string& name);

  Value time_;  // the input, of models that see it
};

}  // namespace coldframe::onnx
