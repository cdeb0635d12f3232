#include "train_temporal/onnx/temporal_graph.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/online_model.h"

namespace coldframe::onnx {
namespace {

using temporal::ModelConfig;
using temporal::ModelKind;
using temporal::TemporalPool;

constexpr const char *kBatch = "batch", *kFrames = "frames";

// PyTorch has a GRU's gates as r, z, n and an LSTM's as i, f, g, o; ONNX as z, r, h and i, o, f, c
// (onnx/docs/Operators.md). rows: [gates · H, …]
torch::Tensor reordered(const torch::Tensor& rows, const std::vector<std::int64_t>& gates) {
  const auto parts = rows.chunk(static_cast<std::int64_t>(gates.size()));
  std::vector<torch::Tensor> moved;
  for (const std::int64_t gate : gates) moved.push_back(parts[static_cast<std::size_t>(gate)]);
  return torch::cat(moved);
}

class TemporalGraph {
 public:
  explicit TemporalGraph(const temporal::TrainedModel& trained)
      : card_(trained.card), config_(trained.card.config) {
    for (const auto& item : trained.model->named_parameters()) tensors_[item.key()] = item.value();
    for (const auto& item : trained.model->named_buffers()) tensors_[item.key()] = item.value();
  }

  Graph build() {
    Value x = graph_.input("features", {kBatch, kFrames, config_.dimension});
    x = divided(minus(x, tensor("feature_mean")), tensor("feature_std"));
    x = linear(x, "project");
    const bool recurrent = is_recurrent(config_.architecture);
    if (recurrent && config_.time) x = with_time(x);
    if (recurrent)
      for (std::int64_t layer = 0; layer < config_.layers; ++layer) x = recur(x, layer);
    else if (tensors_.contains("hidden.weight"))
      x = graph_.gelu(linear(x, "hidden"));
    const bool per_frame = config_.per_frame();
    const Value outputs = linear(per_frame ? x : pool(x), "head");
    graph_.output(outputs, "outputs", shape_of(per_frame, config_.classes));
    for (std::size_t t = 0; t < card_.targets.size(); ++t) read(outputs, t, per_frame);
    return std::move(graph_);
  }

 private:
  static Dimensions shape_of(bool per_frame, std::int64_t width) {
    return per_frame ? Dimensions{kBatch, kFrames, width} : Dimensions{kBatch, width};
  }
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

  // As GruModel::time_features().
  Value with_time(const Value& x) {
    const Value time =
        graph_.input("time", {kBatch, kFrames, std::int64_t{temporal::kTimeColumns}});
    const Value value =
        divided(minus(graph_.slice(time, 2, temporal::kLogInterval, temporal::kLogInterval + 2),
                      tensor("time_mean")),
                tensor("time_std"));
    const Value known =
        graph_.slice(time, 2, temporal::kIntervalKnown, temporal::kIntervalKnown + 2);
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
  Value joined(const std::vector<Value>& parts) {
    return graph_.add("Concat", parts, {{"axis", std::int64_t{-1}}});
  }

  // x [batch, frames, I] -> [batch, frames, H]
  Value recur(const Value& x, std::int64_t layer) {
    const bool gru = config_.architecture == ModelKind::kGru;
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

  Value last_of(const Value& x) { return squeezed(graph_.slice(x, 1, -1, INT64_MAX), 1); }

  // x [batch, frames, H] -> [batch, H] of all frames so far. As OnlineModel::pool().
  Value pool(const Value& x) {
    const bool recurrent = is_recurrent(config_.architecture);
    if (config_.order == temporal::FrameOrder::kFirst) return pool_first(x);
    if (config_.order == temporal::FrameOrder::kLast ||
        (recurrent && config_.pool == TemporalPool::kLast))
      return last_of(x);
    const bool mean =
        recurrent ? config_.pool == TemporalPool::kMean : config_.architecture == ModelKind::kMean;
    return mean ? pool_mean(x) : pool_attention(x);
  }

  Value pool_first(const Value& x) {
    const Value seen = state("pool_weight", 1), kept = state("pool_sum", config_.hidden);
    const Value first = squeezed(graph_.slice(x, 1, 0, 1), 1);
    const Value one = plus(times(seen, graph_.constant(0.0)), graph_.constant(1.0));
    const Value result = plus(times(seen, kept), times(minus(one, seen), first));
    next(one, "pool_weight", 1);
    next(result, "pool_sum", config_.hidden);
    return result;
  }

  Value pool_mean(const Value& x) {
    const Value sum = plus(state("pool_sum", config_.hidden), summed(x, 1));
    // Each frame counts for one, whatever it shows.
    const Value ones =
        plus(times(graph_.slice(x, 2, 0, 1), graph_.constant(0.0)), graph_.constant(1.0));
    const Value weight = plus(state("pool_weight", 1), summed(ones, 1));
    next(sum, "pool_sum", config_.hidden);
    next(weight, "pool_weight", 1);
    return divided(sum, weight);
  }

  Value pool_attention(const Value& x) {
    constexpr double kNone = -1e30;  // lies below any score
    const Value before = state("pool_sum", config_.hidden), weighed = state("pool_weight", 1);
    const Value begun = graph_.add("Greater", {weighed, graph_.constant(0.0)});
    const Value highest =
        graph_.add("Where", {begun, state("pool_highest", 1), graph_.constant(kNone)});
    const Value scores = linear(x, "attention");  // [batch, frames, 1]
    const Value top =
        graph_.add("ReduceMax", {scores}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
    const Value reached = graph_.add("Max", {highest, top});
    const Value kept = graph_.add("Exp", {minus(highest, reached)});
    const Value shares = graph_.add("Exp", {minus(scores, unsqueezed(reached, 1))});
    const Value weight = plus(times(kept, weighed), summed(shares, 1));
    const Value sum = plus(times(kept, before), summed(times(shares, x), 1));
    next(sum, "pool_sum", config_.hidden);
    next(weight, "pool_weight", 1);
    next(reached, "pool_highest", 1);
    return divided(sum, weight);
  }

  // As scores_of() in tasks/target.h.
  void read(const Value& outputs, std::size_t t, bool per_frame) {
    const temporal::Target& target = card_.targets[t];
    const temporal::Reading& reading = card_.readings[t];
    const auto from = static_cast<std::int64_t>(first_output(card_.targets, t));
    const auto count = static_cast<std::int64_t>(target.outputs());
    const Value own = graph_.slice(outputs, per_frame ? 2 : 1, from, from + count);
    Value scores;
    if (target.task == temporal::Task::kRegression) {
      scores = plus(times(own, graph_.constant(reading.deviation)), graph_.constant(reading.mean));
    } else if (target.task == temporal::Task::kOrdinal) {
      scores = exceeded(own, count, per_frame ? 2 : 1);
    } else {
      scores = graph_.add("Softmax", {divided(own, graph_.constant(reading.temperature))},
                          {{"axis", std::int64_t{-1}}});
    }
    graph_.output(scores, target.name,
                  shape_of(per_frame, static_cast<std::int64_t>(target.scores())));
  }

  // P(class = c) = P(class ≥ c) − P(class ≥ c + 1), each of these a product of the outputs' before.
  Value exceeded(const Value& outputs, std::int64_t count, std::int64_t axis) {
    const Value steps = graph_.add("Sigmoid", {outputs});
    std::vector<Value> at_least;
    for (std::int64_t k = 0; k < count; ++k) {
      const Value step = graph_.slice(steps, axis, k, k + 1);
      at_least.push_back(k == 0 ? step : times(at_least.back(), step));
    }
    std::vector<Value> classes = {minus(graph_.constant(1.0), at_least.front())};
    for (std::size_t k = 1; k < at_least.size(); ++k)
      classes.push_back(minus(at_least[k - 1], at_least[k]));
    classes.push_back(at_least.back());
    return joined(classes);
  }

  const temporal::ModelCard& card_;
  const ModelConfig& config_;
  StateDict tensors_;
  Graph graph_{"temporal_model"};
};

}  // namespace

Graph temporal_graph(const temporal::TrainedModel& trained) {
  const ModelConfig& config = trained.card.config;
  auto why = temporal::needs_whole_sequence(config);
  if (config.time && config.time_encoding == temporal::TimeEncoding::kDecay)
    why = "its state decays between frames (--time-encoding decay), which ONNX's GRU does not";
  if (why)
    throw ConfigError(concat("--onnx cannot have the model '", model_name(config), "': ", *why));
  const torch::NoGradGuard no_grad;
  return TemporalGraph(trained).build();
}

}  // namespace coldframe::onnx
