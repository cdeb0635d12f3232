// Which way a step of training goes so that it fits into a budget: how many frames at a time, which
// of them keep what from the first pass to the second, and what runs again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "train_temporal/tune/schedule/schedule.h"

namespace coldframe::tune {

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
  std::int64_t most_chunk = 0;        // frames at a time at most; 0: any
  std::shared_ptr<ChunkUses> chunks;  // also of steps of other numbers of frames

  std::uint64_t fixed_bytes() const { return static_cast<std::uint64_t>(frames) * fixed; }
};

struct ConsideredWay {
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
std::vector<ConsideredWay> consider_ways(const StepTask& task, std::uint64_t budget,
                                         std::optional<Strategy> strategy = {});

}  // namespace coldframe::tune
