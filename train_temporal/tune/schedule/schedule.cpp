#include "train_temporal/tune/schedule/schedule.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/text/text.h"
#include "train_temporal/tune/schedule/optimal_schedule.h"

namespace coldframe::tune {
namespace {

// Counts what is live between operations. Value i is the input of step i, value n the chain's
// output.
class LiveBytes {
 public:
  LiveBytes(std::span<const StepCost> chain, std::uint64_t input_bytes)
      : chain_(chain),
        input_bytes_(input_bytes),
        kept_(chain.size() + 1, false),
        graph_(chain.size()),
        gradient_(chain.size()) {
    kept_[0] = true;
    live_ = input_bytes + gradient_bytes(gradient_);
  }

  Moment run(const Operation& operation) {
    const std::size_t i = operation.step;
    require(i < chain_.size(), operation, "there is no such step");
    const std::uint64_t before = live_;
    live_ -= around(i);
    const std::uint64_t extra =
        operation.action == Action::kBackward ? backward(operation) : forward(operation);
    live_ += around(i);
    return {before + extra, live_};
  }

  void require_end() const {
    if (gradient_ > 0)
      throw std::invalid_argument(concat("step ", gradient_ - 1, " does not run backward"));
  }

 private:
  // Both return what the operation needs beyond what was live before it.
  std::uint64_t forward(const Operation& operation) {
    const std::size_t i = operation.step;
    require(kept_[i], operation, "its input is not there");
    require(!graph_[i], operation, "its graph is there already");
    require(!kept_[i + 1], operation, "its output is there already");
    const StepCost& cost = chain_[i];
    kept_[i] = operation.action != Action::kForward;
    kept_[i + 1] = true;
    if (operation.action != Action::kForwardWithGraph) return cost.output + cost.forward_extra;
    graph_[i] = &cost.graph(operation.keep);
    return cost.output + graph_[i]->saved + graph_[i]->graph_extra;
  }
  std::uint64_t backward(const Operation& operation) {
    const std::size_t i = operation.step;
    require(graph_[i], operation, "it has no graph");
    require(graph_[i] == &chain_[i].graph(operation.keep), operation, "its graph is another");
    require(gradient_ == i + 1, operation, "its output has no gradient");
    graph_[i] = nullptr;
    kept_[i] = kept_[i + 1] = false;
    gradient_ = i;
    live_ += gradient_bytes(i) - gradient_bytes(i + 1);
    return gradient_bytes(i) + chain_[i].graph(operation.keep).backward_extra;
  }

  static void require(bool holds, const Operation& operation, const char* otherwise) {
    if (!holds)
      throw std::invalid_argument(concat("step ", operation.step, " cannot run ",
                                         word_for(kActions, operation.action), ": ", otherwise));
  }
  std::uint64_t value_bytes(std::size_t i) const {
    return i == 0 ? input_bytes_ : chain_[i - 1].output;
  }
  std::uint64_t gradient_bytes(std::size_t i) const { return i == 0 ? 0 : value_bytes(i); }
  // The graph of the step before holds its output, whoever else has dropped it.
  bool held(std::size_t value) const { return kept_[value] || (value > 0 && graph_[value - 1]); }
  // Bytes that an operation of step i may change, gradients apart.
  std::uint64_t around(std::size_t i) const {
    return (held(i) ? value_bytes(i) : 0) + (held(i + 1) ? value_bytes(i + 1) : 0) +
           (graph_[i] ? graph_[i]->saved : 0);
  }

  std::span<const StepCost> chain_;
  std::uint64_t input_bytes_, live_;
  std::vector<bool> kept_;
  std::vector<const GraphCost*> graph_;  // nullptr: there is none
  std::size_t gradient_;                 // the value whose gradient is there
};

// Every step runs once.
Schedule straight_schedule(Keep keep, std::size_t steps) {
  Schedule schedule;
  for (std::size_t i = 0; i < steps; ++i) schedule.push_back({Action::kForwardWithGraph, i, keep});
  for (std::size_t i = steps; i-- > 0;) schedule.push_back({Action::kBackward, i, keep});
  return schedule;
}

bool whole_is_fastest(const StepCost& step) {
  return std::ranges::all_of(step.graphs, [&](const GraphCost& graph) {
    return graph.backward >= step.graph(Keep::kWhole).backward;
  });
}

}  // namespace

std::vector<Moment> memory_over_time(const Schedule& schedule, std::span<const StepCost> chain,
                                     std::uint64_t input_bytes) {
  LiveBytes live(chain, input_bytes);
  std::vector<Moment> moments;
  for (const Operation& operation : schedule) moments.push_back(live.run(operation));
  live.require_end();
  return moments;
}

double seconds_of(const Operation& operation, std::span<const StepCost> chain) {
  const StepCost& cost = chain[operation.step];
  return operation.action == Action::kBackward ? cost.graph(operation.keep).backward : cost.forward;
}

Use simulate(const Schedule& schedule, std::span<const StepCost> chain, std::uint64_t input_bytes) {
  Use use;
  for (const Moment& moment : memory_over_time(schedule, chain, input_bytes))
    use.peak = std::max(use.peak, moment.highest);
  for (const Operation& operation : schedule) use.seconds += seconds_of(operation, chain);
  return use;
}

Schedule make_schedule(Strategy strategy, std::span<const StepCost> chain,
                       std::uint64_t input_bytes, std::uint64_t budget) {
  if (chain.empty()) return {};
  const Schedule whole = straight_schedule(Keep::kWhole, chain.size());
  const Schedule cheap = straight_schedule(Keep::kCheap, chain.size());
  if (strategy != Strategy::kOptimal) return strategy == Strategy::kNone ? whole : cheap;
  const auto use = [&](const Schedule& each) { return simulate(each, chain, input_bytes); };
  if (std::ranges::all_of(chain, whole_is_fastest) && use(whole).peak <= budget) return whole;
  Schedule best = optimal_schedule(chain, input_bytes, budget);
  if (best.empty()) return best;
  double seconds = use(best).seconds;
  // Rounding may have hidden one of these from the search.
  for (const Schedule& other : {cheap, whole}) {
    const Use its = use(other);
    if (its.peak > budget || its.seconds >= seconds) continue;
    best = other;
    seconds = its.seconds;
  }
  return best;
}

}  // namespace coldframe::tune
