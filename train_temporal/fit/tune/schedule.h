// The order in which a chain of steps runs forward and backward, so that its memory stays within a
// budget: which inputs stay, which steps run again, and what that costs. Steps are, in order: the
// patch embedding where it is trained, each block, norm and pooling. Plain C++ over numbers: an
// executor follows a schedule, a plan simulates it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/text/spelling.h"

namespace coldframe::tune {

// What the graph of a step keeps for its way back.
enum class Keep {
  kWhole,  // all that operators save
  kCheap,  // what is pointwise is computed again: norms, activations, casts, half-precision sums
  kLean    // so are products that give at least as many values as they take: qkv, proj, fc1
};
inline const WordTable<Keep> kKeepWords{
    {"whole", Keep::kWhole}, {"cheap", Keep::kCheap}, {"lean", Keep::kLean}};
inline constexpr Keep kKeeps[] = {Keep::kWhole, Keep::kCheap, Keep::kLean};
// To keep what is cheap to compute again gains less than 1 % of the time at any budget.
inline constexpr Keep kSearchedKeeps[] = {Keep::kCheap, Keep::kLean};

// Of a step whose graph keeps so much.
struct GraphCost {
  std::uint64_t saved = 0;        // stays for the backward pass, beside input and output
  std::uint64_t graph_extra = 0;  // beyond input, output and saved, while it runs forward
  std::uint64_t backward_extra =
      0;                // beyond input, output, saved and both gradients, on its way back
  double backward = 0;  // seconds, or any unit; with what is computed again

  bool operator==(const GraphCost&) const = default;
};

// Bytes as an allocator counts them, of one chunk of frames. The input of a step is the output of
// the one before; of the first one it is given.
struct StepCost {
  std::uint64_t output = 0;
  std::uint64_t gradient = 0;       // of the output, beside views of the features' gradient
  std::uint64_t forward_extra = 0;  // beyond input and output, while it runs without a graph
  double forward = 0;
  std::array<GraphCost, std::size(kKeeps)> graphs{};  // of each of kKeeps
  std::uint64_t handed = 0;  // part of the input that goes with the output, too: it stays with both

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
struct OperationMemory {
  std::uint64_t highest = 0, after = 0;  // live bytes while an operation runs, and behind it
};
std::vector<OperationMemory> memory_over_time(const Schedule& schedule,
                                              std::span<const StepCost> chain,
                                              std::uint64_t input_bytes);

// kOptimal gives the fastest persistent schedule (one that drops an input that it keeps only when
// its step has run backward) with a peak of at most `budget`; empty when that is less than
// min_memory(). It searches in slots of a thousandth of the budget, but holds what it finds to
// the bytes. The other strategies do not ask for the budget.
Schedule make_schedule(Strategy strategy, std::span<const StepCost> chain,
                       std::uint64_t input_bytes, std::uint64_t budget = 0);
// The least peak that any persistent schedule has.
std::uint64_t min_memory(std::span<const StepCost> chain, std::uint64_t input_bytes);

// The dynamic programme of rotor for heterogeneous chains (Beaumont, Eyraud-Dubois, Herrmann, Joly,
// Shilova, "Optimal checkpointing for heterogeneous chains", arXiv:1911.13214, theorem 1), with a
// choice at each step of how much its graph keeps, as in Rockmate (Zhao et al. 2023,
// arXiv:2307.01236).

// The fastest schedule that the programme finds whose simulated peak is within the budget; empty
// when there is none. make_schedule() holds the simpler strategies against it.
Schedule optimal_schedule(std::span<const StepCost> chain, std::uint64_t input_bytes,
                          std::uint64_t budget);

// Which way a step of training goes so that it fits into a budget: how many frames at a time, which
// of them keep what from the first pass to the second, and what runs again.

// Frames go through the ViT in chunks: first for their features, without a graph, then, when the
// head has given the features' gradients, again and backward (GradCache, Gao et al. 2021,
// arXiv:2101.06983). The last `kept` chunks run once: they follow their schedule up to its first
// backward operation in the first pass, and go on from there in the second, which goes from the
// last chunk to the first.
struct Way {
  Strategy strategy = Strategy::kCheap;  // of each chunk
  std::int64_t chunk = 0;                // frames at a time; the last chunk may have fewer
  std::int64_t kept = 0;                 // chunks
  std::uint64_t budget = 0;              // of kOptimal's schedule of one chunk

  bool operator==(const Way&) const = default;
};
std::string to_string(const Way& way);  // "cheap, 16 frames at a time, 2 chunks kept"

// The trained steps of one chunk.
struct ChunkCost {
  std::vector<StepCost> chain;
  std::uint64_t input = 0;  // bytes of what enters it, where it is made for the chunk
};

// A chunk that follows a schedule.
struct ChunkUse {
  std::uint64_t kept = 0;           // what stays between the passes of a chunk that is kept
  std::uint64_t first_peak = 0;     // of such a one in the first pass,
  std::uint64_t second_peak = 0;    // and in the second
  std::uint64_t without_graph = 0;  // the first pass's peak of one that is not kept
  double forward = 0, seconds = 0;  // of a pass without a graph; of the schedule

  std::uint64_t peak() const { return std::max(first_peak, second_peak); }
};

// What chunks of so many frames take. It is found once for a task and its copies. Not for several
// threads.
class ChunkUses {
 public:
  using Cost = std::function<ChunkCost(std::int64_t frames)>;
  explicit ChunkUses(Cost cost) : find_cost_(std::move(cost)) {}

  const ChunkCost& cost(std::int64_t frames);
  // Nothing where the budget of an optimal schedule is too small.
  const std::optional<ChunkUse>& use(std::int64_t frames, Strategy strategy, std::uint64_t budget);

 private:
  Cost find_cost_;
  std::map<std::int64_t, ChunkCost> costs_;
  std::map<std::tuple<std::int64_t, Strategy, std::uint64_t>, std::optional<ChunkUse>> uses_;
};

struct StepTask {
  std::int64_t frames = 0;
  std::uint64_t feature_bytes = 0;    // of one frame
  std::uint64_t fixed = 0;            // likewise: what is there all the time, such as its input
  std::uint64_t head = 0;             // what the head takes, beside features and their gradient
  std::int64_t max_chunk = 0;         // frames at a time at most; 0: any
  std::shared_ptr<ChunkUses> chunks;  // also of steps of other numbers of frames

  std::uint64_t fixed_bytes() const { return static_cast<std::uint64_t>(frames) * fixed; }
};

struct RankedSchedule {
  Way way;
  Use use;
  bool fits = false;
};

// Measured costs are within 2 % of what steps take: so much of a budget may be planned with.
inline std::uint64_t planned_part(std::uint64_t budget) {
  return budget - budget / 50;
}

// The exams of a step may go in turn, which takes no longer. Returns how many of `exams` fit at
// once where every frame runs once by a strategy that does not search; at least 1. More exams must
// take more memory.
std::int64_t exams_that_fit(std::int64_t exams, std::uint64_t budget, Strategy strategy,
                            const std::function<StepTask(std::int64_t exams)>& task_of);

// A step takes this that goes this way, fixed bytes, features and head included.
Use use_of(const Way& way, const StepTask& task);
// The ways that are worth a thought, at least one, of one strategy or (nothing given) of kCheap
// and, where it does not fit with all frames at once, kOptimal: those that fit, the fastest first,
// then the others, the smallest first. A way fits that takes at most planned_part() of the budget,
// or where there is none, all of it. Budget 0: any.
std::vector<RankedSchedule> rank_schedules(const StepTask& task, std::uint64_t budget,
                                           std::optional<Strategy> strategy = {});

}  // namespace coldframe::tune
