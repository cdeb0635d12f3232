#include "train_temporal/onnx/temporal_graph.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/baseline_models.h"
#include "train_temporal/models/online_model.h"
#include "train_temporal/models/ordered/transformer_model.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/onnx/frame_layers.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::onnx {
namespace {

using temporal::ModelConfig;
using temporal::TemporalPool;

StateDict tensors_of(const temporal::SequenceModel& model) {
  StateDict tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

class TemporalGraph : FrameLayers {
 public:
  explicit TemporalGraph(const temporal::TrainedModel& trained)
      : FrameLayers(trained.card.config, tensors_of(*trained.model)), card_(trained.card) {}

  Graph build() {
    Value x = graph_.input("features", {kBatch, kFrames, config_.features()});
    if (config_.frame_covariates) x = with_covariates(x);
    x = divided(minus(x, tensor("feature_mean")), tensor("feature_std"));
    if (!config_.streams.empty()) x = without_missing(x);
    x = config_.gated ? weigh_streams(x) : linear(x, "project");
    if (config_.architecture->ordered) {
      x = encode(config_.time ? with_time(x) : x);
    } else if (tensors_.contains("hidden.weight")) {
      x = graph_.gelu(linear(x, "hidden"));
    }
    const bool per_frame = config_.per_frame();
    Value outputs = linear(per_frame ? x : pool(x), "head");
    if (tensors_.contains("covariate_head.weight")) outputs = with_covariate_term(outputs);
    graph_.output(outputs, "outputs", shape_of(per_frame, config_.classes));
    for (std::size_t t = 0; t < card_.targets.size(); ++t) read(outputs, t, per_frame);
    return std::move(graph_);
  }

 private:
  static Dimensions shape_of(bool per_frame, std::int64_t width) {
    return per_frame ? Dimensions{kBatch, kFrames, width} : Dimensions{kBatch, width};
  }

  // Equals FrameInputs: missing features, NaN, are 0 once standardised.
  Value without_missing(const Value& x) {
    return graph_.add("Where", {graph_.add("IsNaN", {x}), graph_.constant(0.0), x});
  }
  Value weigh_streams(const Value& x) {
    const std::int64_t streams = std::ssize(config_.streams), width = config_.stream_width();
    std::vector<Value> values, scores, weighed;
    for (std::int64_t s = 0; s < streams; ++s) {
      const Value both =
          linear(graph_.slice(x, 2, s * width, (s + 1) * width), concat("fusion.", s));
      values.push_back(graph_.add("Tanh", {graph_.slice(both, 2, 0, config_.hidden)}));
      scores.push_back(graph_.slice(both, 2, config_.hidden, 2 * config_.hidden));
    }
    const Value highest = graph_.add("Max", scores);
    Value sum, total;
    for (std::int64_t s = 0; s < streams; ++s) {
      const auto i = static_cast<std::size_t>(s);
      const Value there = graph_.slice(x, 2, streams * width + s, streams * width + s + 1);
      const Value weight = times(there, graph_.add("Exp", {minus(scores[i], highest)}));
      const Value value = times(weight, values[i]);
      sum = s == 0 ? value : plus(sum, value);
      total = s == 0 ? weight : plus(total, weight);
    }
    return divided(sum, graph_.add("Max", {total, graph_.constant(1e-12)}));
  }

  Value covariates() { return graph_.input("covariates", {kBatch, config_.covariates}); }
  Value with_covariates(const Value& x) {
    const Value none = times(graph_.slice(x, 2, 0, 1), graph_.constant(0.0));
    return joined({x, plus(none, unsqueezed(covariates(), 1))});
  }
  Value with_covariate_term(const Value& outputs) {
    const Value term = graph_.linear(covariates(), tensors_.at("covariate_head.weight"), {});
    return plus(outputs, config_.per_frame() ? unsqueezed(term, 1) : term);
  }

  Value last_of(const Value& x) { return squeezed(graph_.slice(x, 1, -1, INT64_MAX), 1); }

  // x [batch, frames, H] -> [batch, H] of all frames so far. As OnlineModel::pool().
  Value pool(const Value& x) {
    const bool ordered = config_.architecture->ordered;
    if (config_.order == temporal::FrameOrder::kFirst) return pool_first(x);
    if (config_.order == temporal::FrameOrder::kLast ||
        (ordered && config_.pool == TemporalPool::kLast))
      return last_of(x);
    const bool mean =
        ordered ? config_.pool == TemporalPool::kMean : config_.architecture == &temporal::kMean;
    if (config_.architecture == &temporal::kTransformer) return pool_whole(x, mean);
    return mean ? pool_mean(x) : pool_attention(x);
  }

  Value pool_whole(const Value& x, bool mean) {
    if (mean)
      return graph_.add("ReduceMean", {x}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
    const Value shares =
        graph_.add("Softmax", {linear(x, "attention")}, {{"axis", std::int64_t{1}}});
    return summed(times(shares, x), 1);
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
    const temporal::Readout& reading = card_.readings[t];
    const auto from = static_cast<std::int64_t>(first_output(card_.targets, t));
    const auto count = static_cast<std::int64_t>(target.outputs());
    const Value own = graph_.slice(outputs, per_frame ? 2 : 1, from, from + count);
    Value scores;
    if (target.is_survival()) {
      scores = survival(own, target, reading);
    } else if (target.task == temporal::Task::kRegression) {
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

  // Gives survival_scores() of tasks/survival.h: logarithms of survival are sums of hazards, each
  // by its share. own: [B, outputs]
  Value survival(const Value& own, const temporal::Target& target,
                 const temporal::Readout& reading) {
    const auto floats = [](const std::vector<double>& values) {
      return torch::tensor(values).to(torch::kFloat32);
    };
    const auto horizons = static_cast<std::int64_t>(target.horizons.size());
    Value risk, hazards;
    if (target.task == temporal::Task::kCox) {
      risk = plus(own, graph_.constant(reading.mean));
      // Logarithms are added, so that a hazard of 0 stays so beside a risk that overflows.
      const torch::Tensor baseline = torch::tensor(baseline_at(target, reading), torch::kFloat64);
      const torch::Tensor least = torch::full({}, -1e30, torch::kFloat64);
      hazards = graph_.add(
          "Exp", {plus(risk, graph_.constant(baseline.log().maximum(least).to(torch::kFloat32)))});
    } else {
      const Value each =
          graph_.add("Softplus", {plus(own, graph_.constant(floats(reading.hazards)))});
      const Value all = graph_.linear(
          each, floats(interval_shares(target, reading)).view({1 + horizons, -1}), {});
      risk = graph_.slice(all, 1, 0, 1);
      hazards = graph_.slice(all, 1, 1, 1 + horizons);
    }
    const Value none = graph_.add("Exp", {graph_.add("Neg", {hazards})});
    return joined({risk, none});
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

  const temporal::ModelMetadata& card_;
};

}  // namespace

Graph temporal_graph(const temporal::TrainedModel& trained) {
  const ModelConfig& config = trained.card.config;
  auto why = temporal::needs_whole_sequence(config);
  const bool whole = config.architecture == &temporal::kTransformer;
  if (whole && config.order == temporal::FrameOrder::kInOrder) why.reset();
  if (config.time && config.time_encoding == temporal::TimeEncoding::kDecay)
    why = "its state decays between frames (--time-encoding decay), which ONNX's GRU does not";
  if (why)
    throw ConfigError(concat("--onnx cannot have the model '", model_name(config), "': ", *why));
  const torch::NoGradGuard no_grad;
  return TemporalGraph(trained).build();
}

}  // namespace coldframe::onnx
