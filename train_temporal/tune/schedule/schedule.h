// The order in which a chain of steps runs forward and backward, so that its memory stays within a
// budget: which inputs stay, which steps run again, and what that costs. Steps are, in order: the
// patch embedding where it is trained, each block, norm and pooling. Plain C++ over numbers: an
// executor follows a schedule, a plan simulates it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "common/text/word_table.h"

namespace coldframe::tune {

// What the graph of a step keeps for its way back.
enum class Keep {
  kWhole,  // all that operators save
  kCheap,  // what is pointwise is computed again: norms, activations, casts, half-precision sums
  kSlim,   // so are products that give over three times what they take: fc1, LoRA's second matrix
  kLean    // so are those that give at least as many: qkv, proj, fc1
};
inline const WordTable<Keep> kKeepWords{
    {"whole", Keep::kWhole}, {"cheap", Keep::kCheap}, {"slim", Keep::kSlim}, {"lean", Keep::kLean}};
inline constexpr Keep kKeeps[] = {Keep::kWhole, Keep::kCheap, Keep::kSlim, Keep::kLean};

// Of a step whose graph keeps so much.
struct GraphCost {
  std::uint64_t saved = 0;        // stays for the backward pass, beside input and output
  std::uint64_t graph_extra = 0;  // beyond input, output and saved, while it runs forward
  std::uint64_t backward_extra =
      0;                // beyond input, output, saved and both gradients, on its way back
  double backward = 0;  // seconds, or any unit; with what is computed again

  bool operator==(const GraphCost&) const = default;
};

// Bytes as an allocator counts them, of one chunk of frames. An output and its gradient are equally
// large. The input of a step is the output of the one before; of the first one it is given.
struct StepCost {
  std::uint64_t output = 0;
  std::uint64_t forward_extra = 0;  // beyond input and output, while it runs without a graph
  double forward = 0;
  std::array<GraphCost, std::size(kKeeps)> graphs{};  // of each of kKeeps

  const GraphCost& graph(Keep keep) const { return graphs[static_cast<std::size_t>(keep)]; }
  GraphCost& graph(Keep keep) { return graphs[static_cast<std::size_t>(keep)]; }
  bool operator==(const StepCost&) const = default;
};

// The operations of Beaumont et al. (arXiv:1911.13214, table 1): F∅, Fck, Fall and B.
enum class Action {
  kForward,           // no graph, the input is dropped
  kForwardKeepInput,  // no graph, the input stays for later
  kForwardWithGraph,  // the input becomes a leaf, the graph stays
  kBackward           // the output's gradient gives the input's; graph, input and output are freed
};
inline const WordTable<Action> kActions{{"forward", Action::kForward},
                                        {"forward and keep its input", Action::kForwardKeepInput},
                                        {"forward with a graph", Action::kForwardWithGraph},
                                        {"backward", Action::kBackward}};

struct Operation {
  Action action;
  std::size_t step;
  Keep keep = Keep::kWhole;  // of a graph, forward and backward

  bool operator==(const Operation&) const = default;
};
using Schedule = std::vector<Operation>;

enum class Strategy {
  kNone,    // every step runs once and keeps all that operators save
  kCheap,   // every step runs once; what is pointwise is computed again
  kOptimal  // every step as the dynamic programme finds: kept in one of these ways, or run again
};
inline const WordTable<Strategy> kStrategies{
    {"none", Strategy::kNone}, {"cheap", Strategy::kCheap}, {"optimal", Strategy::kOptimal}};

struct Use {
  std::uint64_t peak = 0;
  double seconds = 0;
};

// Finds what a schedule takes. The chain's input and the gradient of its output are there from the
// start and counted; the input gets no gradient. std::invalid_argument names the operation that
// cannot run, or the step that does not run backward.
double seconds_of(const Operation& operation, std::span<const StepCost> chain);
Use simulate(const Schedule& schedule, std::span<const StepCost> chain, std::uint64_t input_bytes);
struct Moment {
  std::uint64_t highest = 0, after = 0;  // live bytes while an operation runs, and behind it
};
std::vector<Moment> memory_over_time(const Schedule& schedule, std::span<const StepCost> chain,
                                     std::uint64_t input_bytes);

// kOptimal gives the fastest persistent schedule (one that drops an input that it keeps only when
// its step has run backward) with a peak of at most `budget`; empty when that is less than
// least_memory(). It searches in slots of a thousandth of the budget, but holds what it finds to
// the bytes. The other strategies do not ask for the budget.
Schedule make_schedule(Strategy strategy, std::span<const StepCost> chain,
                       std::uint64_t input_bytes, std::uint64_t budget = 0);
// The least peak that any persistent schedule has.
std::uint64_t least_memory(std::span<const StepCost> chain, std::uint64_t input_bytes);

}  // namespace coldframe::tune
