#include "train_temporal/onnx/temporal_graph.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/online_model.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/onnx/frame_operations.h"
#include "train_temporal/onnx/summary_graph.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::onnx {
namespace {

using temporal::ModelConfig;

struct Table {
  Value value;
  std::int64_t columns = 0;  // of its last axis
};

// A task's arithmetic as nodes, over the last of so many axes.
class TaskNodes : public temporal::KeepingOperations<Table> {
  using At = temporal::OutputOperations::Value;
  using Node = onnx::Value;

 public:
  TaskNodes(Graph& graph, std::int64_t axis) : graph_(graph), axis_(axis) {}

  At plus(At x, const std::vector<double>& to_each) override {
    const auto width = static_cast<std::int64_t>(to_each.size());
    const Node sum = graph_.add("Add", {at(x).value, graph_.constant(floats(to_each))});
    return keep({sum, std::max(at(x).columns, width)});
  }
  At times(At x, double factor) override { return scaled("Mul", x, factor); }
  At divided(At x, double divisor) override { return scaled("Div", x, divisor); }
  At softmax(At x) override { return of_each("Softmax", x, {{"axis", std::int64_t{-1}}}); }
  At sigmoid(At x) override { return of_each("Sigmoid", x); }
  At softplus(At x) override { return of_each("Softplus", x); }
  At exponential(At x) override { return of_each("Exp", x); }
  At cumulative_product(At x) override {
    std::vector<Node> products;
    for (std::int64_t k = 0; k < at(x).columns; ++k) {
      const Node next = graph_.slice(at(x).value, axis_, k, k + 1);
      products.push_back(k == 0 ? next : graph_.add("Mul", {products.back(), next}));
    }
    return keep({concatenated(products), at(x).columns});
  }
  At sums(At x, const std::vector<double>& weights) override {
    const torch::Tensor rows = floats(weights).view({-1, at(x).columns});
    return keep({graph_.linear(at(x).value, rows, {}), rows.size(0)});
  }
  At columns(At x, std::size_t from, std::size_t to) override {
    const auto first = static_cast<std::int64_t>(from), behind = static_cast<std::int64_t>(to);
    return keep({graph_.slice(at(x).value, axis_, first, behind), behind - first});
  }
  At joined(At x, At y) override {
    return keep({concatenated({at(x).value, at(y).value}), at(x).columns + at(y).columns});
  }

 private:
  static torch::Tensor floats(const std::vector<double>& values) {
    return torch::tensor(values).to(torch::kFloat32);
  }
  Node concatenated(const std::vector<Node>& parts) {
    return graph_.add("Concat", parts, {{"axis", std::int64_t{-1}}});
  }
  At of_each(const char* type, At x, const Attributes& attributes = {}) {
    return keep({graph_.add(type, {at(x).value}, attributes), at(x).columns});
  }
  At scaled(const char* type, At x, double by) {
    return keep({graph_.add(type, {at(x).value, graph_.constant(by)}), at(x).columns});
  }

  Graph& graph_;
  std::int64_t axis_;
};

// What a model's outputs say of each target, as scores_of() in tasks/target.h.
class Readings {
 public:
  Readings(Graph& graph, const temporal::ModelMetadata& card)
      : graph_(graph), card_(card), per_frame_(card.config.per_frame()) {}

  void read(const Value& outputs) {
    graph_.output(outputs, "outputs", shape_of(card_.config.outputs));
    for (std::size_t t = 0; t < card_.targets.size(); ++t) read(outputs, t);
  }

 private:
  Dimensions shape_of(std::int64_t width) const {
    return per_frame_ ? Dimensions{kBatch, kFrames, width} : Dimensions{kBatch, width};
  }

  void read(const Value& outputs, std::size_t t) {
    const temporal::Target& target = card_.targets[t];
    const temporal::Readout& readout = card_.readouts[t];
    const auto from = static_cast<std::int64_t>(first_output(card_.targets, t));
    const auto count = static_cast<std::int64_t>(target.outputs());
    const Value own = graph_.slice(outputs, per_frame_ ? 2 : 1, from, from + count);
    TaskNodes on(graph_, per_frame_ ? 2 : 1);
    const Value scores =
        on.at(target.kind().scores_of(on, target, readout, on.keep({own, count}))).value;
    graph_.output(scores, target.name, shape_of(static_cast<std::int64_t>(target.scores())));
  }

  Graph& graph_;
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
  FrameOperations operations(graph, config, temporal::state_dict(*trained.model));
  const temporal::Value outputs =
      summary != nullptr
          ? temporal::Value{config.outputs, {}, summary_graph(graph, config, *summary)}
          : outputs_of(operations, config);
  Readings(graph, trained.card).read(operations.with_covariate_term(outputs));
  return graph;
}

}  // namespace coldframe::onnx
