#include "train_temporal/onnx/temporal_graph.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/online_model.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/onnx/frame_operations.h"
#include "train_temporal/onnx/summary_graph.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::onnx {
namespace {

using temporal::ModelConfig;

StateDict tensors_of(const temporal::SequenceModel& model) {
  StateDict tensors;
  for (const auto& item : model.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) tensors[item.key()] = item.value();
  return tensors;
}

// What a model's outputs say of each target, as scores_of() in tasks/target.h.
class Readings : Nodes {
 public:
  Readings(Graph& graph, const temporal::ModelMetadata& card)
      : Nodes(graph), card_(card), per_frame_(card.config.per_frame()) {}

  void read(const Value& outputs) {
    graph_.output(outputs, "outputs", shape_of(card_.config.classes));
    for (std::size_t t = 0; t < card_.targets.size(); ++t) read(outputs, t);
  }

 private:
  Dimensions shape_of(std::int64_t width) const {
    return per_frame_ ? Dimensions{kBatch, kFrames, width} : Dimensions{kBatch, width};
  }

  void read(const Value& outputs, std::size_t t) {
    const temporal::Target& target = card_.targets[t];
    const temporal::Readout& reading = card_.readings[t];
    const auto from = static_cast<std::int64_t>(first_output(card_.targets, t));
    const auto count = static_cast<std::int64_t>(target.outputs());
    const Value own = graph_.slice(outputs, per_frame_ ? 2 : 1, from, from + count);
    Value scores;
    if (target.is_survival()) {
      scores = survival(own, target, reading);
    } else if (target.task == temporal::Task::kRegression) {
      scores = plus(times(own, graph_.constant(reading.deviation)), graph_.constant(reading.mean));
    } else if (target.task == temporal::Task::kOrdinal) {
      scores = exceeded(own, count, per_frame_ ? 2 : 1);
    } else {
      scores = graph_.add("Softmax", {divided(own, graph_.constant(reading.temperature))},
                          {{"axis", std::int64_t{-1}}});
    }
    graph_.output(scores, target.name, shape_of(static_cast<std::int64_t>(target.scores())));
  }

  // Gives the scores of times, see tasks/survival.h: logarithms of survival are sums of hazards,
  // each by its share. own: [B, outputs]
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
  const bool per_frame_;
};

}  // namespace

Graph temporal_graph(const temporal::TrainedModel& trained) {
  const ModelConfig& config = trained.card.config;
  const auto* summary = dynamic_cast<const temporal::SummaryModel*>(trained.model.get());
  auto why = summary != nullptr ? no_summary_graph(config, *summary)
                                : temporal::needs_whole_sequence(config);
  // Of a graph that sees all frames this is no obstacle.
  if (config.architecture->ordered && !config.bidirectional &&
      config.order == temporal::FrameOrder::kInOrder)
    why.reset();
  if (config.decays())
    why = "its state decays between frames (--time-encoding decay), which ONNX's GRU does not";
  if (config.inputs != temporal::Inputs::kLevel)
    why = "it sees frames beside the first and the one before (--inputs)";
  if (why)
    throw ConfigError(concat("--onnx cannot have the model '", model_name(config), "': ", *why));
  const torch::NoGradGuard no_grad;
  Graph graph("temporal_model");
  FrameOperations operations(graph, config, tensors_of(*trained.model));
  const temporal::Value outputs =
      summary != nullptr
          ? temporal::Value{config.classes, {}, summary_graph(graph, config, *summary)}
          : outputs_of(operations, config);
  Readings(graph, trained.card).read(operations.with_covariate_term(outputs));
  return graph;
}

}  // namespace coldframe::onnx
