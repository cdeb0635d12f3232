#include "train_temporal/fit/tune/schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "common/text/text.h"

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

  OperationMemory run(const Operation& operation) {
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
  std::uint64_t gradient_bytes(std::size_t i) const { return i == 0 ? 0 : chain_[i - 1].gradient; }
  // The graph of the step before holds its output, whoever else has dropped it.
  bool held(std::size_t value) const { return kept_[value] || (value > 0 && graph_[value - 1]); }
  // Bytes that an operation of step i may change, gradients apart.
  std::uint64_t around(std::size_t i) const {
    return held_bytes(i) + held_bytes(i + 1) + held_bytes(i + 2) +
           (graph_[i] ? graph_[i]->saved : 0);
  }
  std::uint64_t held_bytes(std::size_t i) const {
    if (i > chain_.size() || !held(i)) return 0;
    return value_bytes(i) + (i > 0 && !held(i - 1) ? chain_[i - 1].handed : 0);
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

}  // namespace

std::vector<OperationMemory> memory_over_time(const Schedule& schedule,
                                              std::span<const StepCost> chain,
                                              std::uint64_t input_bytes) {
  LiveBytes live(chain, input_bytes);
  std::vector<OperationMemory> moments;
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
  for (const OperationMemory& moment : memory_over_time(schedule, chain, input_bytes))
    use.peak = std::max(use.peak, moment.highest);
  for (const Operation& operation : schedule) use.seconds += seconds_of(operation, chain);
  return use;
}

Schedule make_schedule(Strategy strategy, std::span<const StepCost> chain,
                       std::uint64_t input_bytes, std::uint64_t budget) {
  if (chain.empty()) return {};
  if (strategy == Strategy::kNone) return straight_schedule(Keep::kWhole, chain.size());
  const Schedule cheap = straight_schedule(Keep::kCheap, chain.size());
  if (strategy == Strategy::kCheap) return cheap;
  const Schedule best = optimal_schedule(chain, input_bytes, budget);
  if (best.empty()) return best;
  // Rounding may have hidden it from the search.
  const Use its = simulate(cheap, chain, input_bytes);
  const double seconds = simulate(best, chain, input_bytes).seconds;
  return its.peak <= budget && its.seconds < seconds ? cheap : best;
}

namespace {

constexpr std::size_t kSlots = 1000;  // the paper has 500

// Bytes that a part of the chain needs beyond its input, from step s to step t, both included: the
// input of s is there, and so is the gradient of t's output, which they count.
class Needs {
 public:
  Needs(std::span<const StepCost> chain) : chain_(chain) {}

  // Running s with its graph needs this: forward, and later backward.
  std::uint64_t with_graph(std::size_t s, std::size_t t, Keep keep) const {
    const GraphCost& cost = chain_[s].graph(keep);
    const std::uint64_t all = graph(s, keep);
    return std::max(gradient(t) + all + cost.graph_extra,
                    input_gradient(s) + chain_[s].gradient + all + cost.backward_extra);
  }
  std::uint64_t graph(std::size_t s, Keep keep) const {
    return chain_[s].output + chain_[s].graph(keep).saved;
  }
  // Running step j without a graph needs this on the way from s, whose input stays.
  std::uint64_t without_graph(std::size_t s, std::size_t j, std::size_t t) const {
    return gradient(t) + (j > s ? input(j) : 0) + chain_[j].output + chain_[j].forward_extra;
  }
  std::uint64_t input(std::size_t j) const { return chain_[j - 1].output + chain_[j - 1].handed; }
  std::uint64_t gradient(std::size_t t) const { return chain_[t].gradient; }

 private:
  std::uint64_t input_gradient(std::size_t s) const { return s == 0 ? 0 : gradient(s - 1); }

  std::span<const StepCost> chain_;
};

// What goes first on the way through a part. Of equally good choices the first in this order goes.
struct Choice {
  std::size_t without_graph = 0;  // so many steps run before an input stays; 0: the first step
  Keep keep = Keep::kCheap;       // runs with its graph, which keeps so much

  auto operator<=>(const Choice&) const = default;
};

void append_choice(Schedule& schedule, std::size_t s, const Choice& choice) {
  if (choice.without_graph == 0)
    return schedule.push_back({Action::kForwardWithGraph, s, choice.keep});
  for (std::size_t i = 0; i < choice.without_graph; ++i)
    schedule.push_back({i == 0 ? Action::kForwardKeepInput : Action::kForward, s + i});
}

// A value for each part of the chain; parts of equal steps share one.
template <class Value>
class OfParts {
 public:
  // `find(*this, s, t)` may ask for the parts within its part.
  template <class Find>
  OfParts(std::span<const StepCost> chain, const Find& find)
      : places_(chain.size() * (chain.size() + 1) / 2) {
    std::vector<std::size_t> alike(chain.size());  // steps up to this one that equal those before
    for (std::size_t i = 1; i < chain.size(); ++i)
      alike[i] = chain[i] == chain[i - 1] ? alike[i - 1] + 1 : 0;
    for (std::size_t length = 1; length <= chain.size(); ++length) {
      for (std::size_t s = 0, t = length - 1; t < chain.size(); ++s, ++t) {
        const bool same_input = s > 1 && chain[s - 1].output == chain[s - 2].output &&
                                chain[s - 1].handed == chain[s - 2].handed &&
                                chain[s - 1].gradient == chain[s - 2].gradient;
        const bool known = same_input && alike[t] >= length;
        places_[place(s, t)] = known ? places_[place(s - 1, t - 1)] : values_.size();
        if (!known) values_.push_back(find(*this, s, t));
      }
    }
  }

  const Value& operator()(std::size_t s, std::size_t t) const {
    return values_[places_[place(s, t)]];
  }

 private:
  static std::size_t place(std::size_t s, std::size_t t) { return t * (t + 1) / 2 + s; }

  std::vector<std::size_t> places_;
  std::vector<Value> values_;
};

// The shortest time of every part of the chain in every number of slots.
class Programme {
 public:
  Programme(std::span<const StepCost> chain, std::uint64_t bytes)
      : chain_(chain),
        needs_(chain),
        slot_(std::max(1.0, double(bytes) / kSlots)),
        // Rounding may make a part larger than it is: the search goes a little beyond the budget,
        // and what it finds is measured in bytes.
        slots_(slot_ > 1 ? kSlots + kSlots / 20 : static_cast<std::int64_t>(bytes)),
        offers_(static_cast<std::size_t>(slots_) + 1, kNoOffer),
        offered_(offers_.size() / 64 + 1),
        parts_(chain, [this](const OfParts<Stairs>& parts, std::size_t s, std::size_t t) {
          return stairs(parts, s, t);
        }) {}

  std::int64_t slots() const { return slots_; }
  std::int64_t min_slots() const { return parts_(0, chain_.size() - 1).front().slots; }
  // The fastest, and how many of the slots it can do without: with fewer ones it is the same.
  std::pair<Schedule, std::int64_t> schedule(std::int64_t slots) const {
    Schedule result;
    const std::int64_t spare = append(result, 0, chain_.size() - 1, slots);
    return {std::move(result), spare};
  }

 private:
  // From so many slots on until the next stair a part takes this time.
  struct Stair {
    std::int64_t slots;
    double time;
    Choice choice;
  };
  using Stairs = std::vector<Stair>;  // upwards; the last one is beyond all slots
  static constexpr Stair kNoOffer{
      std::numeric_limits<std::int64_t>::max() / 2, std::numeric_limits<double>::infinity(), {}};

  std::int64_t slots_of(std::uint64_t bytes) const { return std::lround(double(bytes) / slot_); }
  std::int64_t graph_slots(std::size_t s, std::size_t t, Keep keep) const {
    return s < t ? slots_of(needs_.graph(s, keep)) : 0;
  }

  Stairs stairs(const OfParts<Stairs>& parts, std::size_t s, std::size_t t) {
    const Stairs nothing{{0, 0, {}}};
    for (const Keep keep : kSearchedKeeps) {
      const double own = chain_[s].forward + chain_[s].graph(keep).backward;
      const std::int64_t need = slots_of(needs_.with_graph(s, t, keep));
      const std::int64_t graph = graph_slots(s, t, keep);
      for (const Stair& rest : s < t ? parts(s + 1, t) : nothing)
        offer({std::max(need, rest.slots + graph), own + rest.time, {0, keep}});
    }
    std::uint64_t peak = 0;
    double forward = 0;
    for (std::size_t j = s; j < t; ++j) {  // the input of j + 1 stays
      peak = std::max(peak, needs_.without_graph(s, j, t));
      forward += chain_[j].forward;
      const std::int64_t kept = slots_of(needs_.input(j + 1));
      const Stair *right = parts(j + 1, t).data(), *left = parts(s, j).data();
      for (std::int64_t m = std::max({slots_of(peak), kept + right->slots, left->slots});
           m <= slots_; m = std::min(kept + right[1].slots, left[1].slots)) {
        while (kept + right[1].slots <= m) ++right;
        while (left[1].slots <= m) ++left;
        offer({m, forward + right->time + left->time, {j + 1 - s}});
      }
    }
    return best_offers();
  }

  void offer(const Stair& stair) {
    if (stair.slots > slots_) return;
    const auto at = static_cast<std::size_t>(stair.slots);
    if (stair.time >= offers_[at].time) return;
    offers_[at] = stair;
    offered_[at / 64] |= std::uint64_t{1} << at % 64;
  }
  // Takes what is better than all offers of fewer slots.
  Stairs best_offers() {
    Stairs best;
    best.reserve(64);
    const auto rank = [](const Stair& stair) { return std::tie(stair.time, stair.choice); };
    for (std::size_t word = 0; word < offered_.size(); ++word) {
      for (std::uint64_t bits = std::exchange(offered_[word], 0); bits != 0; bits &= bits - 1) {
        Stair& each = offers_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))];
        if (best.empty() || rank(each) < rank(best.back())) best.push_back(each);
        each = kNoOffer;
      }
    }
    best.push_back(kNoOffer);
    return best;
  }

  // Gives the slots to spare.
  std::int64_t append(Schedule& schedule, std::size_t s, std::size_t t, std::int64_t slots) const {
    const Stairs& all = parts_(s, t);
    const auto& [least, time, choice] =
        *(std::ranges::upper_bound(all, slots, {}, &Stair::slots) - 1);
    std::int64_t spare = slots - least;
    append_choice(schedule, s, choice);
    if (choice.without_graph > 0) {
      const std::size_t next = s + choice.without_graph;
      spare = std::min(spare, append(schedule, next, t, slots - slots_of(needs_.input(next))));
      return std::min(spare, append(schedule, s, next - 1, slots));
    }
    if (s < t)
      spare = std::min(spare, append(schedule, s + 1, t, slots - graph_slots(s, t, choice.keep)));
    schedule.push_back({Action::kBackward, s, choice.keep});
    return spare;
  }

  std::span<const StepCost> chain_;
  Needs needs_;
  double slot_;  // bytes
  std::int64_t slots_;
  Stairs offers_;  // the best for each number of slots, of the part that is looked at
  std::vector<std::uint64_t> offered_;  // a bit for each of these that is there
  OfParts<Stairs> parts_;
};

// The same recursion over bytes instead of times.
class Least {
 public:
  explicit Least(std::span<const StepCost> chain)
      : last_(chain.size() - 1),
        needs_(chain),
        parts_(chain, [this](const OfParts<Subchain>& parts, std::size_t s, std::size_t t) {
          return part(parts, s, t);
        }) {}

  std::uint64_t bytes() const { return parts_(0, last_).bytes; }
  Schedule schedule() const {
    Schedule result;
    append(result, 0, last_);
    return result;
  }

 private:
  struct Subchain {
    std::uint64_t bytes;
    Choice choice;
  };

  Subchain part(const OfParts<Subchain>& parts, std::size_t s, std::size_t t) const {
    Subchain best{std::numeric_limits<std::uint64_t>::max(), {}};
    for (const Keep keep : kSearchedKeeps) {
      const std::uint64_t rest = s < t ? needs_.graph(s, keep) + parts(s + 1, t).bytes : 0;
      const std::uint64_t bytes = std::max(needs_.with_graph(s, t, keep), rest);
      if (bytes < best.bytes) best = {bytes, {0, keep}};
    }
    std::uint64_t peak = 0;
    for (std::size_t j = s; j < t; ++j) {
      peak = std::max(peak, needs_.without_graph(s, j, t));
      const std::uint64_t bytes =
          std::max({peak, needs_.input(j + 1) + parts(j + 1, t).bytes, parts(s, j).bytes});
      if (bytes < best.bytes) best = {bytes, {j + 1 - s}};
    }
    return best;
  }
  void append(Schedule& schedule, std::size_t s, std::size_t t) const {
    const Choice& choice = parts_(s, t).choice;
    append_choice(schedule, s, choice);
    if (choice.without_graph > 0) {
      append(schedule, s + choice.without_graph, t);
      return append(schedule, s, s + choice.without_graph - 1);
    }
    if (s < t) append(schedule, s + 1, t);
    schedule.push_back({Action::kBackward, s, choice.keep});
  }

  std::size_t last_;
  Needs needs_;
  OfParts<Subchain> parts_;
};

}  // namespace

std::uint64_t min_memory(std::span<const StepCost> chain, std::uint64_t input_bytes) {
  return chain.empty() ? 0 : input_bytes + Least(chain).bytes();
}

Schedule optimal_schedule(std::span<const StepCost> chain, std::uint64_t input_bytes,
                          std::uint64_t budget) {
  if (chain.empty()) return {};
  const Least least(chain);
  if (budget < input_bytes + least.bytes()) return {};
  const Programme programme(chain, budget - input_bytes);
  for (std::int64_t slots = programme.slots(); slots >= programme.min_slots();) {
    auto [schedule, spare] = programme.schedule(slots);
    if (simulate(schedule, chain, input_bytes).peak <= budget) return schedule;
    slots -= spare + 1;
  }
  return least.schedule();  // within a slot or two of the least there may be no other
}

namespace {

constexpr std::uint64_t kAnyBudget = std::numeric_limits<std::uint64_t>::max() / 2;

// Chunks of at least this part of the frames are large. What a step needs beside what it keeps is
// small for smaller ones.
constexpr std::int64_t kParts = 8;

ChunkUse chunk_use(const Schedule& schedule, const ChunkCost& cost) {
  ChunkUse use;
  std::uint64_t input = cost.input;
  for (const StepCost& step : cost.chain) {
    use.without_graph = std::max(use.without_graph, input + step.output + step.forward_extra);
    use.forward += step.forward;
    input = step.output;
  }
  // The chunk's part of the features' gradient is counted with them, from first to last.
  const std::uint64_t gradient = cost.chain.empty() ? 0 : cost.chain.back().gradient;
  const std::vector<OperationMemory> moments = memory_over_time(schedule, cost.chain, cost.input);
  bool first = true;
  std::uint64_t counted = gradient;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (first && schedule[i].action == Action::kBackward) {
      first = false;
      use.kept = moments[i - 1].after - gradient;
    }
    std::uint64_t& peak = first ? use.first_peak : use.second_peak;
    peak = std::max(peak, moments[i].highest - counted);
    if (!first) counted = 0;
  }
  for (const Operation& operation : schedule) use.seconds += seconds_of(operation, cost.chain);
  return use;
}

// The chunks of a way: all but the last are alike.
class Chunks {
 public:
  Chunks(const StepTask& task, std::int64_t size)
      : uses_(*task.chunks),
        size_(std::min(size, task.frames)),
        count_((task.frames + size_ - 1) / size_),
        last_frames_(task.frames - (count_ - 1) * size_),
        feature_bytes_(static_cast<std::uint64_t>(task.frames) * task.feature_bytes),
        outside_(task.fixed_bytes() + feature_bytes_),
        head_(task.head) {}

  std::int64_t count() const { return count_; }
  std::uint64_t outside() const { return outside_; }  // features or gradient, and what is fixed
  std::uint64_t min_budget() {
    const ChunkCost& full = uses_.cost(size_);
    return min_memory(full.chain, full.input);
  }

  // False where the budget of an optimal schedule is too small.
  bool follow(Strategy strategy, std::uint64_t budget) {
    const auto &full = uses_.use(size_, strategy, budget),
               &last = uses_.use(last_frames_, strategy, budget);
    if (!full || !last) return false;
    full_use_ = *full, last_use_ = *last;
    return true;
  }

  Use use(std::int64_t kept) const {
    std::uint64_t first = 0, second = 0, stays = 0;  // beyond what is outside of the chunks
    if (kept < count_) first = full_use_.without_graph, second = full_use_.peak();
    if (kept == 0) {
      first = std::max(first, last_use_.without_graph);
      second = std::max(second, last_use_.peak());
    }
    for (std::int64_t i = 1; i <= kept; ++i) {  // kept chunks lie at the end
      const ChunkUse& chunk = i == kept ? last_use_ : full_use_;
      first = std::max(first, stays + chunk.first_peak);
      second = std::max(second, stays + chunk.second_peak);
      stays += chunk.kept;
    }
    const std::uint64_t between = stays + feature_bytes_ + head_;
    const auto again = static_cast<double>(count_ - std::max<std::int64_t>(kept, 1));
    return {outside_ + std::max({first, between, second}),
            static_cast<double>(count_ - 1) * full_use_.seconds + last_use_.seconds +
                again * full_use_.forward + (kept == 0 ? last_use_.forward : 0)};
  }

  // The most chunks that can be kept.
  std::int64_t most_kept(std::uint64_t budget) const {
    std::int64_t low = 0, high = count_;  // use() grows with what is kept
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (use(middle).peak <= budget)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  // The most bytes for an optimal schedule of a chunk with which all can be kept; 0: there are
  // none.
  std::uint64_t budget_that_keeps_all(std::uint64_t most) {
    std::uint64_t low = 0, high = most - std::min(most, outside_);
    const std::uint64_t near = high / 512 + 1;
    while (high - low > near) {
      const std::uint64_t middle = low + (high - low) / 2;
      const bool fits = follow(Strategy::kOptimal, middle) && use(count_).peak <= most;
      (fits ? low : high) = middle;
    }
    return low;
  }

 private:
  ChunkUses& uses_;
  std::int64_t size_, count_, last_frames_;
  std::uint64_t feature_bytes_, outside_, head_;
  ChunkUse full_use_, last_use_;
};

// All frames, and powers of two below.
std::vector<std::int64_t> sizes(const StepTask& task) {
  const std::int64_t most =
      task.max_chunk > 0 ? std::min(task.max_chunk, task.frames) : task.frames;
  std::vector<std::int64_t> found{most};
  std::int64_t power = 1;
  while (2 * power < most) power *= 2;
  for (; power >= 1 && power < most; power /= 2) found.push_back(power);
  return found;
}

}  // namespace

const ChunkCost& ChunkUses::cost(std::int64_t frames) {
  const auto known = costs_.find(frames);
  return known != costs_.end() ? known->second : costs_[frames] = find_cost_(frames);
}

const std::optional<ChunkUse>& ChunkUses::use(std::int64_t frames, Strategy strategy,
                                              std::uint64_t budget) {
  const auto [place, is_new] = uses_.try_emplace({frames, strategy, budget});
  if (is_new) {
    const ChunkCost& its = cost(frames);
    const Schedule schedule = make_schedule(strategy, its.chain, its.input, budget);
    if (!schedule.empty()) place->second = chunk_use(schedule, its);
  }
  return place->second;
}

std::string to_string(const Way& way) {
  std::string text = word_for(kStrategies, way.strategy);
  text += concat(", ", plural(static_cast<std::size_t>(way.chunk), "frame"), " at a time");
  if (way.kept > 0)
    text += concat(", ", plural(static_cast<std::size_t>(way.kept), "chunk"), " kept");
  return text;
}

Use use_of(const Way& way, const StepTask& task) {
  Chunks chunks(task, way.chunk);
  if (!chunks.follow(way.strategy, way.budget)) return {kAnyBudget, 0};
  return chunks.use(std::min(way.kept, chunks.count()));
}

std::int64_t exams_that_fit(std::int64_t exams, std::uint64_t budget, Strategy strategy,
                            const std::function<StepTask(std::int64_t exams)>& task_of) {
  const auto fits = [&](std::int64_t some) {
    const StepTask task = task_of(some);
    return sizes(task).front() == task.frames &&
           use_of({strategy, task.frames, 1, 0}, task).peak <= planned_part(budget);
  };
  std::int64_t low = 1, high = exams;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

namespace {

std::vector<RankedSchedule> ways_within(const StepTask& task, std::uint64_t most,
                                        std::optional<Strategy> strategy) {
  std::vector<RankedSchedule> found;
  const std::vector<std::int64_t> all_sizes = sizes(task);
  for (const std::int64_t size : all_sizes) {
    Chunks chunks(task, size);
    const bool is_large = size == all_sizes.front() ||
                          size >= std::int64_t(std::bit_floor(std::uint64_t(task.frames / kParts)));
    bool all_run_once = false;
    for (const auto& [word, each] : kStrategies) {
      // `none` goes only where it is asked for.
      if (strategy ? each != *strategy : each == Strategy::kNone) continue;
      std::vector<std::uint64_t> budgets{most - std::min(most, chunks.outside())};
      if (each == Strategy::kOptimal && !strategy) {
        // The search takes time. It pays for the largest chunks, once with the whole budget and
        // once so that all are kept, and for the smallest chunk where nothing else fits.
        const bool last =
            size == all_sizes.back() && std::ranges::none_of(found, &RankedSchedule::fits);
        if (all_run_once || !(is_large || last)) continue;
        if (size < all_sizes.front()) budgets.push_back(chunks.budget_that_keeps_all(most));
      }
      for (const std::uint64_t budget_of_chunk : budgets) {
        Way way{each, size, 0, each == Strategy::kOptimal ? budget_of_chunk : 0};
        if (!chunks.follow(each, way.budget)) {
          if (!strategy) continue;
          way.budget = chunks.min_budget();
          chunks.follow(each, way.budget);
        }
        way.kept = chunks.most_kept(most);
        const Use use = chunks.use(way.kept);
        found.push_back({way, use, use.peak <= most});
        if (each != Strategy::kOptimal)
          all_run_once = use.peak <= most && way.kept == chunks.count();
      }
    }
    // No other schedule computes less: a slow moment while costs were measured may say otherwise.
    if (all_run_once) break;
  }
  std::ranges::stable_sort(found, [](const RankedSchedule& a, const RankedSchedule& b) {
    if (a.fits != b.fits) return a.fits;
    if (!a.fits) return a.use.peak < b.use.peak;
    return a.use.seconds != b.use.seconds ? a.use.seconds < b.use.seconds : a.use.peak < b.use.peak;
  });
  return found;
}

}  // namespace

std::vector<RankedSchedule> rank_schedules(const StepTask& task, std::uint64_t budget,
                                           std::optional<Strategy> strategy) {
  const std::uint64_t most = budget == 0 ? kAnyBudget : budget;
  auto ways = ways_within(task, planned_part(most), strategy);
  if (!ways.front().fits) ways = ways_within(task, most, strategy);
  return ways;
}

}  // namespace coldframe::tune
