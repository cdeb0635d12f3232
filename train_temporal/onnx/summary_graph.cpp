#include "train_temporal/onnx/summary_graph.h"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "train_temporal/onnx/nodes.h"

namespace coldframe::onnx {
namespace {

using temporal::Family;

std::vector<Family> families_of(const temporal::SummaryModel& model) {
  std::vector<Family> all;
  for (std::int64_t c = 0; c < model.family.size(0); ++c)
    all.push_back(static_cast<Family>(model.family[c].item<float>()));
  return all;
}

// As summarise() has them, of frames none of which lacks anything.
class Summaries : Nodes {
 public:
  Summaries(Graph& graph, const temporal::ModelConfig& config, bool per_second)
      : Nodes(graph),
        config_(config),
        per_second_(per_second),
        x_(graph.input("features", {kBatch, kFrames, config.dimension})) {}

  // [batch, D]
  Value of(Family family) {
    switch (family) {
      case Family::kAverage:
        return mean(x_);
      case Family::kMaximum:
        return reduced("ReduceMax", x_);
      case Family::kMinimum:
        return reduced("ReduceMin", x_);
      case Family::kDeviation:
        return deviation();
      case Family::kFirst:
        return squeezed(graph_.slice(x_, 1, 0, 1), 1);
      case Family::kLast:
        return squeezed(graph_.slice(x_, 1, -1, INT64_MAX), 1);
      case Family::kChange:
        return minus(of(Family::kLast), of(Family::kFirst));
      case Family::kSlope:
        return slope();
      case Family::kVisits:
        break;
    }
    throw std::logic_error("no graph knows visits");
  }

 private:
  Value reduced(const char* reduction, const Value& x) {
    return graph_.add(reduction, {x}, {{"axes", Integers{1}}, {"keepdims", std::int64_t{0}}});
  }
  Value mean(const Value& x) { return reduced("ReduceMean", x); }
  Value square(const Value& x) { return times(x, x); }

  Value deviation() {
    const Value variance = mean(square(minus(x_, unsqueezed(mean(x_), 1))));
    return graph_.add(
        "Sqrt", {graph_.add("Max", {variance, graph_.constant(temporal::kLeastSummaryVariance)})});
  }

  // Means over frames in the place of sums: their number is the same above and below.
  Value slope() {
    Value one = plus(times(graph_.slice(x_, 2, 0, 1), graph_.constant(0.0)), graph_.constant(1.0));
    Value at = graph_.add("CumSum", {one, graph_.constant(torch::tensor(1))});
    if (per_second_) {
      const std::int64_t values = config_.time_values();
      const Value time = graph_.input("time", {kBatch, kFrames, 2 * values});
      const auto column = [&](std::int64_t of) { return graph_.slice(time, 2, of, of + 1); };
      at = column(temporal::kSinceFirst);
      one = column(values + temporal::kSinceFirst);  // whether it is known
    }
    const Value centre = divided(mean(times(at, one)), mean(one));
    const Value from_mean = times(minus(at, unsqueezed(centre, 1)), one);
    const Value spread = mean(square(from_mean));
    const Value none = graph_.add("Equal", {spread, graph_.constant(0.0)});
    return divided(mean(times(from_mean, x_)),
                   graph_.add("Where", {none, graph_.constant(1.0), spread}));
  }

  const temporal::ModelConfig& config_;
  const bool per_second_;
  const Value x_;
};

class SummaryGraph : Nodes {
 public:
  explicit SummaryGraph(Graph& graph) : Nodes(graph) {}
  Value outputs(const temporal::ModelConfig& config, const temporal::SummaryModel& model) {
    Summaries summaries(graph_, config, model.per_second.item<float>() > 0);
    std::map<Family, Value> known;
    std::vector<Value> all;
    std::int64_t c = 0;
    for (const Family family : families_of(model)) {
      Value& own = known[family];
      if (own.empty()) own = summaries.of(family);
      const Value x = divided(minus(own, graph_.constant(model.summary_mean[c])),
                              graph_.constant(model.summary_std[c]));
      // Slopes at unknown times alone count as their mean.
      const Value there = graph_.add("Where", {graph_.add("IsNaN", {x}), graph_.constant(0.0), x});
      all.push_back(graph_.linear(there, model.head->weight.narrow(0, c, 1),
                                  model.head->bias.narrow(0, c, 1)));
      ++c;
    }
    return joined(all);
  }
};

}  // namespace

std::optional<std::string> no_summary_graph(const temporal::ModelConfig& config,
                                            const temporal::SummaryModel& model) {
  if (!config.streams.empty()) return "streams may each lack frames";
  for (const Family family : families_of(model))
    if (family == Family::kVisits) return "it took a difference between visits";
  if (config.order != temporal::FrameOrder::kInOrder) return "it sees frames in random order";
  return std::nullopt;
}

Value summary_graph(Graph& graph, const temporal::ModelConfig& config,
                    const temporal::SummaryModel& model) {
  return SummaryGraph(graph).outputs(config, model);
}

}  // namespace coldframe::onnx
