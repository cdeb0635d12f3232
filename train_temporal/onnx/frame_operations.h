// The operations of temporal models as nodes of a growing graph, which goes on from a state: of a
// sequence that comes in pieces, or frame by frame. Values are [batch, frames, width], and once
// pooled [batch, width].
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/torch/safetensors.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/onnx/nodes.h"

namespace coldframe::onnx {

using Node = Value;  // of a graph, where temporal::Value is what operations take

class FrameOperations final : public temporal::Operations, Nodes {
 public:
  using Value = temporal::Value;
  FrameOperations(Graph& graph, const temporal::ModelConfig& config, StateDict tensors)
      : Operations(config), Nodes(graph), tensors_(std::move(tensors)) {}

  Value features() override;
  using Nodes::times;
  temporal::TimeInputs times() override;
  Value clock() override;
  Value covariates() override;
  Value linear(const Value& x, const std::string& name, std::int64_t width) override;
  Value norm(const Value& x, const std::string& name) override;
  Value add(const Value& a, const Value& b) override { return of("Add", {a, b}); }
  Value multiply(const Value& a, const Value& b) override { return of("Mul", {a, b}); }
  Value one_minus(const Value& x) override {
    return {x.width, {}, minus(graph_.constant(1.0), x.node)};
  }
  Value gelu(const Value& x) override { return {x.width, {}, graph_.gelu(x.node)}; }
  Value relu(const Value& x) override { return of("Relu", {x}); }
  Value sine(const Value& x) override { return of("Sin", {x}); }
  Value tanh(const Value& x) override { return of("Tanh", {x}); }
  Value columns(const Value& x, std::int64_t from, std::int64_t width) override {
    return {width, {}, graph_.slice(x.node, 2, from, from + width)};
  }
  Value join(const std::vector<Value>& parts) override;
  Value weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
              const Value& there) override;
  Value recur(const Value& x, std::int64_t layer) override;
  Value convolve(const Value& x, const std::string& name, std::int64_t width, std::int64_t taps,
                 std::int64_t dilation) override;
  Value attend(const Value& x) override;
  Value pool(const Value& x) override;

  // The outputs with the term of covariates beside the head, if there is one.
  Node with_covariate_term(const Value& outputs);

 private:
  Value of(const char* type, const std::vector<Value>& inputs);
  const torch::Tensor& tensor(const std::string& name) const { return tensors_.at(name); }
  Node constant(const std::string& name) { return graph_.constant(tensors_.at(name)); }
  Node over_frames(const char* reduction, const Node& x);  // [batch, frames, …] → [batch, …]
  // A one of each frame, [batch, frames, 1]; nodes have no other way to its shape.
  Node ones(const Node& x);
  Node state(const std::string& name, std::int64_t width);
  void next(const Node& value, const std::string& name, std::int64_t width);
  std::pair<Node, Node> turns(const Node& x);
  Node pool_first(const Node& x);
  Node pool_mean(const Node& x);
  Node pool_attention(const Node& x);

  StateDict tensors_;
  Node time_;  // the input, of models that see it
  std::optional<std::pair<Node, Node>> turns_;
};

}  // namespace coldframe::onnx
