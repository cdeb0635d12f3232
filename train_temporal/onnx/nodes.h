// Small words for the operators of a growing graph.
#pragma once

#include <vector>

#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

inline constexpr const char *kBatch = "batch", *kFrames = "frames";

class Nodes {
 protected:
  explicit Nodes(Graph& graph) : graph_(graph) {}

  Value plus(const Value& a, const Value& b) { return graph_.add("Add", {a, b}); }
  Value minus(const Value& a, const Value& b) { return graph_.add("Sub", {a, b}); }
  Value times(const Value& a, const Value& b) { return graph_.add("Mul", {a, b}); }
  Value divided(const Value& a, const Value& b) { return graph_.add("Div", {a, b}); }
  Value joined(const std::vector<Value>& parts) {
    return graph_.add("Concat", parts, {{"axis", std::int64_t{-1}}});
  }
  Value squeezed(const Value& x, std::int64_t axis) {
    return graph_.add("Squeeze", {x, graph_.constant(Integers{axis})});
  }
  Value unsqueezed(const Value& x, std::int64_t axis) {
    return graph_.add("Unsqueeze", {x, graph_.constant(Integers{axis})});
  }

  Graph& graph_;
};

}  // namespace coldframe::onnx
