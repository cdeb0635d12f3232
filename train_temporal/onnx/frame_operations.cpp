#include "train_temporal/onnx/frame_operations.h"

#include <cmath>
#include <stdexcept>

#include "common/text/text.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/models/network/packed_frames.h"

namespace coldframe::onnx {
namespace {

// PyTorch has a GRU's gates as r, z, n and an LSTM's as i, f, g, o; ONNX as z, r, h and i, o, f, c
// (onnx/docs/Operators.md). rows: [gates · H, …]
torch::Tensor reordered(const torch::Tensor& rows, const std::vector<std::int64_t>& gates) {
  const auto parts = rows.chunk(static_cast<std::int64_t>(gates.size()));
  std::vector<torch::Tensor> moved;
  for (const std::int64_t gate : gates) moved.push_back(parts[static_cast<std::size_t>(gate)]);
  return torch::cat(moved);
}

}  // namespace

using temporal::TimeInputs;

FrameOperations::Value FrameOperations::of(const char* type, const std::vector<Value>& inputs) {
  std::vector<Node> nodes;
  for (const Value& input : inputs) nodes.push_back(input.node);
  return {inputs.front().width, {}, graph_.add(type, nodes)};
}

Node FrameOperations::over_frames(const char* reduction, const Node& x) {
  if (std::string_view(reduction) == "ReduceSum")  // whose axes are an input
    return graph_.add(reduction, {x, graph_.constant(Integers{1})},
                      {{"keepdims", std::int64_t{0}}});
  return graph_.add(reduction, {x}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
}
Node FrameOperations::ones(const Node& x) {
  return plus(times(graph_.slice(x, 2, 0, 1), graph_.constant(0.0)), graph_.constant(1.0));
}
Node FrameOperations::state(const std::string& name, std::int64_t width) {
  return graph_.input(name, {kBatch, width});
}
void FrameOperations::next(const Node& value, const std::string& name, std::int64_t width) {
  graph_.output(value, "next_" + name, {kBatch, width});
}

FrameOperations::Value FrameOperations::features() {
  Node x = graph_.input("features", {kBatch, kFrames, config_.features()});
  if (config_.frame_covariates) {
    const Node none = times(graph_.slice(x, 2, 0, 1), graph_.constant(0.0));
    x = joined({x, plus(none, unsqueezed(covariates().node, 1))});
  }
  x = divided(minus(x, constant("feature_mean")), constant("feature_std"));
  if (!config_.streams.empty())
    x = graph_.add("Where", {graph_.add("IsNaN", {x}), graph_.constant(0.0), x});
  return {config_.dimension, {}, x};
}

TimeInputs FrameOperations::times() {
  using namespace temporal;
  const std::int64_t values = config_.time_values();
  time_ = graph_.input("time", {kBatch, kFrames, 2 * values});
  const Node value = divided(minus(graph_.slice(time_, 2, 0, values), constant("time_mean")),
                             constant("time_std"));
  return {{values, {}, value},
          {values, {}, graph_.slice(time_, 2, values, 2 * values)},
          {1, {}, graph_.slice(time_, 2, values + kSinceFirst, values + kSinceFirst + 1)}};
}

// Of models that temporal_graph() refuses.
FrameOperations::Value FrameOperations::clock() {
  throw std::logic_error("no graph reads how exams were acquired");
}

FrameOperations::Value FrameOperations::covariates() {
  return {config_.covariates, {}, graph_.input("covariates", {kBatch, config_.covariates})};
}

FrameOperations::Value FrameOperations::linear(const Value& x, const std::string& name,
                                               std::int64_t width) {
  return {width, {}, graph_.linear(x.node, tensor(weight_of(name)), tensor(bias_of(name)))};
}

FrameOperations::Value FrameOperations::norm(const Value& x, const std::string& name) {
  return {
      x.width,
      {},
      graph_.add("LayerNormalization", {x.node, constant(weight_of(name)), constant(bias_of(name))},
                 {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5f}})};
}

FrameOperations::Value FrameOperations::join(const std::vector<Value>& parts) {
  Value result;
  std::vector<Node> nodes;
  for (const Value& part : parts) {
    result.width += part.width;
    nodes.push_back(part.node);
  }
  result.node = joined(nodes);
  return result;
}

FrameOperations::Value FrameOperations::weigh(const std::vector<Value>& values,
                                              const std::vector<Value>& scores,
                                              const Value& there) {
  const Node highest = of("Max", scores).node;
  Node sum, total;
  for (std::size_t s = 0; s < values.size(); ++s) {
    const Node present = columns(there, static_cast<std::int64_t>(s), 1).node;
    const Node weight = times(present, graph_.add("Exp", {minus(scores[s].node, highest)}));
    const Node value = times(weight, values[s].node);
    sum = s == 0 ? value : plus(sum, value);
    total = s == 0 ? weight : plus(total, weight);
  }
  const Node some = graph_.add("Max", {total, graph_.constant(1e-12)});
  return {values.front().width, {}, divided(sum, some)};
}

FrameOperations::Value FrameOperations::recur(const Value& x, std::int64_t layer) {
  const bool gru = config_.architecture->gates == 3;
  const std::int64_t width = config_.hidden;
  const Integers gates = gru ? Integers{1, 0, 2} : Integers{0, 3, 1, 2};
  const auto weight = [&](const char* name) {
    return reordered(tensor(concat(config_.architecture->name, ".", name, "_l", layer)), gates)
        .unsqueeze(0);
  };
  std::vector<Node> inputs = {
      graph_.transpose(x.node, {1, 0, 2}), graph_.constant(weight("weight_ih")),
      graph_.constant(weight("weight_hh")),
      graph_.constant(torch::cat({weight("bias_ih"), weight("bias_hh")}, 1)), ""};
  const std::string hidden = concat("hidden_l", layer), cell = concat("cell_l", layer);
  inputs.push_back(unsqueezed(state(hidden, width), 0));
  Attributes attributes = {{"hidden_size", width}};
  if (gru)
    attributes.emplace_back("linear_before_reset", std::int64_t{1});
  else
    inputs.push_back(unsqueezed(state(cell, width), 0));
  const auto found = graph_.add(gru ? "GRU" : "LSTM", inputs, attributes, gru ? 2 : 3);
  next(squeezed(found[1], 0), hidden, width);
  if (!gru) next(squeezed(found[2], 0), cell, width);
  return {width, {}, graph_.transpose(squeezed(found[0], 1), {1, 0, 2})};  // [frames, 1, batch, H]
}

FrameOperations::Value FrameOperations::convolve(const Value& x, const std::string& name,
                                                 std::int64_t width, std::int64_t taps,
                                                 std::int64_t dilation) {
  const torch::Tensor& weight = tensor(weight_of(name));
  if (taps == 1)
    return {width, {}, graph_.linear(x.node, weight.squeeze(2), tensor(bias_of(name)))};
  // tcn.0.conv1 keeps conv1_l0.
  const auto parts = split(name, '.');
  const std::string kept = concat(parts.back(), "_l", parts[1]);
  const std::int64_t reach = (taps - 1) * dilation, all = reach * x.width;
  const Node before = graph_.reshape(state(kept, all), {0, reach, x.width});
  const Node frames = graph_.add("Concat", {before, x.node}, {{"axis", std::int64_t{1}}});
  next(graph_.reshape(graph_.slice(frames, 1, -reach, INT64_MAX), {0, all}), kept, all);
  const Node y = graph_.add(
      "Conv",
      {graph_.transpose(frames, {0, 2, 1}), graph_.constant(weight), constant(bias_of(name))},
      {{"dilations", Integers{dilation}}});
  return {width, {}, graph_.transpose(y, {0, 2, 1})};
}

// Cosine and sine of what each place turns by, [batch, 1, frames, d / 2], as PackedFrames has them.
std::pair<Node, Node> FrameOperations::turns(const Node& x) {
  const auto exact = [&](const Node& value) {
    return graph_.add("Cast", {value}, {{"to", std::int64_t{11}}});  // TensorProto.DOUBLE
  };
  Node step = ones(x);
  if (config_.time) {
    using namespace temporal;
    const Node interval =
        graph_.add("Exp", {minus(graph_.slice(time_, 2, kLogInterval, kLogInterval + 1),
                                 graph_.constant(tensor("time_mean").narrow(0, 0, 1)))});
    const std::int64_t values = config_.time_values();
    const Node known =
        graph_.add("Greater", {graph_.slice(time_, 2, values, values + 1), graph_.constant(0.0)});
    step = graph_.add("Where", {known, interval, graph_.constant(1.0)});
  }
  const Node frames = graph_.constant(torch::tensor(1, torch::kInt64));  // the axis
  const Node place = graph_.add("CumSum", {exact(step), frames});
  const torch::Tensor speed = temporal::rotary_speeds(config_.hidden).to(torch::kFloat32);
  const Node angle = unsqueezed(times(place, exact(graph_.constant(speed))), 1);
  const auto turn = [&](const char* function) {
    return graph_.add("Cast", {graph_.add(function, {angle})}, {{"to", std::int64_t{1}}});
  };
  return {turn("Cos"), turn("Sin")};
}

FrameOperations::Value FrameOperations::attend(const Value& x) {
  if (!turns_) turns_ = turns(x.node);
  const auto& [cosine, sine] = *turns_;
  const std::int64_t hidden = x.width / 3, heads = temporal::attention_heads(hidden);
  const std::int64_t width = hidden / heads, half = width / 2;
  const auto part = [&](std::int64_t index) {  // [batch, h, frames, d]
    const Node one = graph_.slice(x.node, 2, index * hidden, (index + 1) * hidden);
    return graph_.transpose(graph_.reshape(one, {0, -1, heads, width}), {0, 2, 1, 3});
  };
  const auto turned = [&, &cosine = cosine, &sine = sine](const Node& one) {
    const Node a = graph_.slice(one, 3, 0, half), b = graph_.slice(one, 3, half, width);
    return joined(
        {minus(times(a, cosine), times(b, sine)), plus(times(b, cosine), times(a, sine))});
  };
  const Node keys = graph_.transpose(turned(part(1)), {0, 1, 3, 2});
  const Node scores = times(graph_.add("MatMul", {turned(part(0)), keys}),
                            graph_.constant(1 / std::sqrt(static_cast<double>(width))));
  const Node shares = graph_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const Node attended = graph_.transpose(graph_.add("MatMul", {shares, part(2)}), {0, 2, 1, 3});
  return {hidden, {}, graph_.reshape(attended, {0, -1, hidden})};
}

// Of all frames so far; models that need whole sequences have all of them here.
FrameOperations::Value FrameOperations::pool(const Value& x) {
  using temporal::TemporalPool;
  const bool whole = config_.architecture->needs_whole_sequence != nullptr;
  const bool mean = pool_of(config_) == TemporalPool::kMean;
  const auto pooled = [&]() -> Node {
    if (config_.order == temporal::FrameOrder::kFirst) return pool_first(x.node);
    if (config_.order == temporal::FrameOrder::kLast || pool_of(config_) == TemporalPool::kLast)
      return squeezed(graph_.slice(x.node, 1, -1, INT64_MAX), 1);
    if (!whole) return mean ? pool_mean(x.node) : pool_attention(x.node);
    if (mean) return over_frames("ReduceMean", x.node);
    const Node scores = linear(x, "attention", 1).node;
    const Node shares = graph_.add("Softmax", {scores}, {{"axis", std::int64_t{1}}});
    return over_frames("ReduceSum", times(shares, x.node));
  };
  return {x.width, {}, pooled()};
}

Node FrameOperations::with_covariate_term(const Value& outputs) {
  const auto weight = tensors_.find("covariate_head.weight");
  if (weight == tensors_.end()) return outputs.node;
  const Node term = graph_.linear(covariates().node, weight->second, {});
  return plus(outputs.node, config_.per_frame() ? unsqueezed(term, 1) : term);
}

Node FrameOperations::pool_first(const Node& x) {
  const Node seen = state("pool_weight", 1), kept = state("pool_sum", config_.hidden);
  const Node first = squeezed(graph_.slice(x, 1, 0, 1), 1);
  const Node one = plus(times(seen, graph_.constant(0.0)), graph_.constant(1.0));
  const Node result = plus(times(seen, kept), times(minus(one, seen), first));
  next(one, "pool_weight", 1);
  next(result, "pool_sum", config_.hidden);
  return result;
}

Node FrameOperations::pool_mean(const Node& x) {
  const Node sum = plus(state("pool_sum", config_.hidden), over_frames("ReduceSum", x));
  // Each frame counts for one, whatever it shows.
  const Node weight = plus(state("pool_weight", 1), over_frames("ReduceSum", ones(x)));
  next(sum, "pool_sum", config_.hidden);
  next(weight, "pool_weight", 1);
  return divided(sum, weight);
}

Node FrameOperations::pool_attention(const Node& x) {
  constexpr double kNone = -1e30;  // lies below any score
  const Node before = state("pool_sum", config_.hidden), weighed = state("pool_weight", 1);
  const Node begun = graph_.add("Greater", {weighed, graph_.constant(0.0)});
  const Node highest =
      graph_.add("Where", {begun, state("pool_highest", 1), graph_.constant(kNone)});
  const Node scores = linear({config_.hidden, {}, x}, "attention", 1).node;  // [batch, frames, 1]
  const Node reached = graph_.add("Max", {highest, over_frames("ReduceMax", scores)});
  const Node kept = graph_.add("Exp", {minus(highest, reached)});
  const Node shares = graph_.add("Exp", {minus(scores, unsqueezed(reached, 1))});
  const Node weight = plus(times(kept, weighed), over_frames("ReduceSum", shares));
  const Node sum = plus(times(kept, before), over_frames("ReduceSum", times(shares, x)));
  next(sum, "pool_sum", config_.hidden);
  next(weight, "pool_weight", 1);
  next(reached, "pool_highest", 1);
  return divided(sum, weight);
}

}  // namespace coldframe::onnx
