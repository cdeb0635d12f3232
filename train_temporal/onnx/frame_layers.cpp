#include "train_temporal/onnx/frame_layers.h"

#include <cmath>

#include "common/text/text.h"
#include "train_temporal/models/ordered/gru_model.h"
#include "train_temporal/models/ordered/tcn_model.h"
#include "train_temporal/models/ordered/transformer_model.h"

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

// Equals OrderedModel::time_features().
Value FrameLayers::with_time(const Value& x) {
  const Value& time = time_ =
      graph_.input("time", {kBatch, kFrames, std::int64_t{temporal::kTimeColumns}});
  const Value value =
      divided(minus(graph_.slice(time, 2, temporal::kLogInterval, temporal::kLogInterval + 2),
                    tensor("time_mean")),
              tensor("time_std"));
  const Value known = graph_.slice(time, 2, temporal::kIntervalKnown, temporal::kIntervalKnown + 2);
  const Value time_known = graph_.slice(time, 2, temporal::kTimeKnown, temporal::kTimeKnown + 1);
  std::vector<Value> parts = {x, times(value, known), minus(graph_.constant(1.0), time_known)};
  if (config_.time_encoding == temporal::TimeEncoding::kTime2Vec) {
    const Value phase = linear(graph_.slice(value, 2, 1, 2), "time2vec");
    const std::int64_t all = tensors_.at("time2vec.bias").size(0);
    const Value periodic = graph_.add("Sin", {graph_.slice(phase, 2, 1, all)});
    parts.push_back(times(joined({graph_.slice(phase, 2, 0, 1), periodic}), time_known));
  }
  return joined(parts);
}

Value FrameLayers::encode(Value x) {
  if (config_.architecture == &temporal::kTransformer) return transform(x);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer)
    x = config_.architecture == &temporal::kTcn ? convolve(x, layer) : recur(x, layer);
  return x;
}

// Equals TcnModel::encode_next(), of one frame or several.
Value FrameLayers::convolve(const Value& x, std::int64_t layer) {
  const std::string block = concat("tcn.", layer, ".");
  Value y = x;
  for (const char* name : {"conv1", "conv2"}) {
    const torch::Tensor& weight = tensors_.at(block + name + ".weight");  // [H, C, 3]
    const std::int64_t reach = temporal::tcn_reach(layer), width = weight.size(1);
    const std::string kept = concat(name, "_l", layer);
    const Value before = graph_.reshape(state(kept, reach * width), {0, reach, width});
    const Value frames = graph_.add("Concat", {before, y}, {{"axis", std::int64_t{1}}});
    next(graph_.reshape(graph_.slice(frames, 1, -reach, INT64_MAX), {0, reach * width}), kept,
         reach * width);
    y = graph_.add("Conv",
                   {graph_.transpose(frames, {0, 2, 1}), graph_.constant(weight),
                    tensor(block + name + ".bias")},
                   {{"dilations", Integers{temporal::tcn_dilation(layer)}}});
    y = graph_.gelu(graph_.transpose(y, {0, 2, 1}));
  }
  const std::string beside = block + "downsample";
  if (!tensors_.contains(beside + ".weight")) return graph_.gelu(plus(x, y));
  return graph_.gelu(plus(
      graph_.linear(x, tensors_.at(beside + ".weight").squeeze(2), tensors_.at(beside + ".bias")),
      y));
}

Value FrameLayers::norm(const Value& x, const std::string& name) {
  return graph_.add("LayerNormalization", {x, tensor(name + ".weight"), tensor(name + ".bias")},
                    {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5f}});
}

// Equals TransformerModel::encode(), of whole sequences.
Value FrameLayers::transform(Value x) {
  const std::int64_t hidden = config_.hidden;
  if (config_.time) {
    x = plus(graph_.slice(x, 2, 0, hidden), linear(graph_.slice(x, 2, hidden, INT64_MAX), "time"));
  }
  const auto [cosine, sine] = turns(x);
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string name = concat("transformer.layers.", layer, ".");
    x = plus(x, attend(norm(x, name + "norm1"), name + "self_attn.", cosine, sine));
    const Value inner = graph_.gelu(linear(norm(x, name + "norm2"), name + "linear1"));
    x = plus(x, linear(inner, name + "linear2"));
  }
  return norm(x, "transformer.norm");
}

// Cosine and sine of what each place turns by, [batch, 1, frames, d / 2]. As
// TransformerModel::places().
std::pair<Value, Value> FrameLayers::turns(const Value& x) {
  const auto exact = [&](const Value& value) {
    return graph_.add("Cast", {value}, {{"to", std::int64_t{11}}});  // TensorProto.DOUBLE
  };
  const Value one = graph_.constant(1.0);
  Value step = plus(times(graph_.slice(x, 2, 0, 1), graph_.constant(0.0)), one);
  if (config_.time) {
    const Value interval = graph_.add(
        "Exp", {minus(graph_.slice(time_, 2, temporal::kLogInterval, temporal::kLogInterval + 1),
                      graph_.constant(tensors_.at("time_mean").narrow(0, 0, 1)))});
    const Value known = graph_.add(
        "Greater", {graph_.slice(time_, 2, temporal::kIntervalKnown, temporal::kIntervalKnown + 1),
                    graph_.constant(0.0)});
    step = graph_.add("Where", {known, interval, one});
  }
  const Value frames = graph_.constant(torch::tensor(1, torch::kInt64));  // the axis
  const Value place = graph_.add("CumSum", {exact(step), frames});
  const torch::Tensor speed = temporal::rotary_speeds(config_.hidden).to(torch::kFloat32);
  const Value angle = unsqueezed(times(place, exact(graph_.constant(speed))), 1);
  const auto turn = [&](const char* function) {
    return graph_.add("Cast", {graph_.add(function, {angle})}, {{"to", std::int64_t{1}}});
  };
  return {turn("Cos"), turn("Sin")};
}

// x [batch, frames, H]
Value FrameLayers::attend(const Value& x, const std::string& name, const Value& cosine,
                          const Value& sine) {
  const std::int64_t heads = temporal::attention_heads(config_.hidden);
  const std::int64_t width = config_.hidden / heads, half = width / 2;
  const Value all =
      graph_.linear(x, tensors_.at(name + "in_proj_weight"), tensors_.at(name + "in_proj_bias"));
  const auto part = [&](std::int64_t index) {  // [batch, h, frames, d]
    const Value one = graph_.slice(all, 2, index * config_.hidden, (index + 1) * config_.hidden);
    return graph_.transpose(graph_.reshape(one, {0, -1, heads, width}), {0, 2, 1, 3});
  };
  const auto turned = [&](const Value& one) {
    const Value a = graph_.slice(one, 3, 0, half), b = graph_.slice(one, 3, half, width);
    return joined(
        {minus(times(a, cosine), times(b, sine)), plus(times(b, cosine), times(a, sine))});
  };
  const Value keys = graph_.transpose(turned(part(1)), {0, 1, 3, 2});
  const Value scores = times(graph_.add("MatMul", {turned(part(0)), keys}),
                             graph_.constant(1 / std::sqrt(static_cast<double>(width))));
  const Value shares = graph_.add("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const Value attended = graph_.transpose(graph_.add("MatMul", {shares, part(2)}), {0, 2, 1, 3});
  return linear(graph_.reshape(attended, {0, -1, config_.hidden}), name + "out_proj");
}

// x [batch, frames, I] -> [batch, frames, H]
Value FrameLayers::recur(const Value& x, std::int64_t layer) {
  const bool gru = config_.architecture == &temporal::kGru;
  const Integers gates = gru ? Integers{1, 0, 2} : Integers{0, 3, 1, 2};
  const auto weight = [&](const char* name) {
    return reordered(tensors_.at(concat(gru ? "gru." : "lstm.", name, "_l", layer)), gates)
        .unsqueeze(0);
  };
  std::vector<Value> inputs = {
      graph_.transpose(x, {1, 0, 2}), graph_.constant(weight("weight_ih")),
      graph_.constant(weight("weight_hh")),
      graph_.constant(torch::cat({weight("bias_ih"), weight("bias_hh")}, 1)), ""};
  const std::string hidden = concat("hidden_l", layer), cell = concat("cell_l", layer);
  inputs.push_back(unsqueezed(state(hidden, config_.hidden), 0));
  Attributes attributes = {{"hidden_size", config_.hidden}};
  if (gru)
    attributes.emplace_back("linear_before_reset", std::int64_t{1});
  else
    inputs.push_back(unsqueezed(state(cell, config_.hidden), 0));
  const auto found = graph_.add(gru ? "GRU" : "LSTM", inputs, attributes, gru ? 2 : 3);
  next(squeezed(found[1], 0), hidden, config_.hidden);
  if (!gru) next(squeezed(found[2], 0), cell, config_.hidden);
  return graph_.transpose(squeezed(found[0], 1), {1, 0, 2});  // of [frames, 1, batch, H]
}

}  // namespace coldframe::onnx
