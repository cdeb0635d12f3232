#include "train_temporal/tune/schedule/schedule.h"

#include <algorithm>
#include <cmath>
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
        graph_(chain.size(), false),
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
    graph_[i] = operation.action == Action::kForwardWithGraph;
    kept_[i] = operation.action != Action::kForward;
    kept_[i + 1] = true;
    return cost.output + (graph_[i] ? cost.saved + cost.graph_extra : cost.forward_extra);
  }
  std::uint64_t backward(const Operation& operation) {
    const std::size_t i = operation.step;
    require(graph_[i], operation, "it has no graph");
    require(gradient_ == i + 1, operation, "its output has no gradient");
    graph_[i] = kept_[i] = kept_[i + 1] = false;
    gradient_ = i;
    live_ += gradient_bytes(i) - gradient_bytes(i + 1);
    return gradient_bytes(i) + chain_[i].backward_extra;
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
           (graph_[i] ? chain_[i].saved : 0);
  }

  std::span<const StepCost> chain_;
  std::uint64_t input_bytes_, live_;
  std::vector<bool> kept_, graph_;
  std::size_t gradient_;  // the value whose gradient is there
};

// Each segment [begin, end) keeps its input and runs again, but the last, which runs once.
Schedule by_segments(const std::vector<std::size_t>& begins, std::size_t steps) {
  Schedule schedule;
  for (std::size_t g = 0; g + 1 < begins.size(); ++g)
    for (std::size_t i = begins[g]; i < begins[g + 1]; ++i)
      schedule.push_back({i == begins[g] ? Action::kForwardKeepInput : Action::kForward, i});
  for (std::size_t g = begins.size(); g-- > 0;) {
    const std::size_t end = g + 1 < begins.size() ? begins[g + 1] : steps;
    for (std::size_t i = begins[g]; i < end; ++i)
      schedule.push_back({Action::kForwardWithGraph, i});
    for (std::size_t i = end; i-- > begins[g];) schedule.push_back({Action::kBackward, i});
  }
  return schedule;
}

// Norm and pooling belong to the last group; a patch embedding is one of its own.
Schedule by_groups_of_blocks(std::size_t blocks_in_group, std::size_t steps) {
  const std::size_t blocks = (steps - 1) / 2, embedding = (steps - 1) % 2;
  std::vector<std::size_t> begins;
  if (embedding == 1 || blocks == 0) begins.push_back(0);
  for (std::size_t block = 0; block < blocks; block += blocks_in_group)
    begins.push_back(embedding + 2 * block);
  return by_segments(begins, steps);
}

Schedule without_perceptrons(std::size_t steps) {
  const std::size_t embedding = (steps - 1) % 2;
  const auto runs_twice = [&](std::size_t i) {
    return i >= embedding && (i - embedding) % 2 == 1 && i + 2 < steps;
  };
  Schedule schedule;
  for (std::size_t i = 0; i < steps; ++i)
    schedule.push_back({runs_twice(i) ? Action::kForwardKeepInput : Action::kForwardWithGraph, i});
  for (std::size_t i = steps; i-- > 0;) {
    if (runs_twice(i)) schedule.push_back({Action::kForwardWithGraph, i});
    schedule.push_back({Action::kBackward, i});
  }
  return schedule;
}

Schedule fixed_schedule(Strategy strategy, std::size_t steps) {
  const std::size_t blocks = (steps - 1) / 2;
  switch (strategy) {
    case Strategy::kBlock:
      return by_groups_of_blocks(1, steps);
    case Strategy::kSqrt:
      return by_groups_of_blocks(
          std::max<std::size_t>(1, std::lround(std::sqrt(static_cast<double>(blocks)))), steps);
    case Strategy::kMlp:
      return without_perceptrons(steps);
    default:
      return by_segments({0}, steps);
  }
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

Use simulate(const Schedule& schedule, std::span<const StepCost> chain, std::uint64_t input_bytes) {
  Use use;
  for (const Moment& moment : memory_over_time(schedule, chain, input_bytes))
    use.peak = std::max(use.peak, moment.highest);
  for (const Operation& operation : schedule) {
    const StepCost& cost = chain[operation.step];
    use.seconds += operation.action == Action::kBackward ? cost.backward : cost.forward;
  }
  return use;
}

Schedule make_schedule(Strategy strategy, std::span<const StepCost> chain,
                       std::uint64_t input_bytes, std::uint64_t budget) {
  if (chain.empty()) return {};
  if (strategy != Strategy::kOptimal) return fixed_schedule(strategy, chain.size());
  Schedule best = optimal_schedule(chain, input_bytes, budget);
  if (best.empty()) return best;
  Use use = simulate(best, chain, input_bytes);
  // Rounding may have hidden one of these from the search.
  for (const Strategy other :
       {Strategy::kNone, Strategy::kMlp, Strategy::kSqrt, Strategy::kBlock}) {
    Schedule schedule = fixed_schedule(other, chain.size());
    const Use its = simulate(schedule, chain, input_bytes);
    if (its.peak > budget || its.seconds >= use.seconds) continue;
    best = std::move(schedule);
    use = its;
  }
  return best;
}

}  // namespace coldframe::tune
