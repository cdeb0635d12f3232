// Schedules against a search of all persistent ones on small chains, and against one another on the
// chains of ViTs.
#include "train_temporal/fit/tune/schedule.h"

#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <queue>
#include <random>
#include <tuple>

namespace coldframe::tune {
namespace {

using Steps = std::vector<StepCost>;

// A step whose graph keeps the same in every way.
StepCost step(std::uint64_t output, const GraphCost& graph, std::uint64_t forward_extra,
              double forward) {
  StepCost cost{output, output, forward_extra, forward};
  cost.graphs.fill(graph);
  return cost;
}
// A graph that keeps half for a tenth more time, or a quarter for half.
StepCost with_keeps(StepCost cost) {
  for (const auto& [keep, part, more] :
       {std::tuple{Keep::kCheap, 2, 0.1}, std::tuple{Keep::kLean, 4, 0.5}}) {
    cost.graph(keep).saved /= part;
    cost.graph(keep).backward += more * cost.forward;
  }
  return cost;
}

// A ViT's blocks, in bytes of n frames of 197 tokens of 384 float32 numbers; the embedding goes
// before them where it is trained.
Steps vit_chain(std::size_t blocks, bool embedding, std::uint64_t frames = 1) {
  const std::uint64_t x = frames * 197 * 384 * 4, weights = 384 * 384 * 4;
  Steps chain;
  if (embedding) chain.push_back(step(x, {2 * x, x, weights, 1}, 3 * x, 1));
  for (std::size_t i = 0; i < blocks; ++i) {
    chain.push_back(with_keeps(step(x, {5 * x + x / 64, x, 5 * x + 3 * weights, 4}, 6 * x, 2)));
    chain.push_back(with_keeps(step(x, {9 * x + x / 96, x, 3 * x + 4 * weights, 6}, 9 * x, 3)));
  }
  chain.push_back(step(frames * 384 * 4, {x / 96, x, x, 0.2}, x, 0.1));
  return chain;
}
std::uint64_t input_of(const Steps& chain) {
  return chain[chain.size() - 2].output;
}

Steps random_chain(std::mt19937& random, std::size_t steps) {
  const auto up_to = [&](int most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random);
  };
  Steps chain(steps);
  for (StepCost& cost : chain) {
    cost = step(1 + up_to(5), {}, up_to(4), double(1 + up_to(9)));
    cost.gradient = up_to(6);
    for (GraphCost& graph : cost.graphs) graph = {up_to(12), up_to(4), up_to(6), double(up_to(9))};
  }
  return chain;
}

// The shortest time of any persistent schedule, by Dijkstra's search over what can be live:
// nothing is kept and then dropped before its step has run backward.
class AnySchedule {
 public:
  AnySchedule(const Steps& chain, std::uint64_t input, std::uint64_t budget)
      : chain_(chain), input_(input), budget_(budget) {}

  std::optional<double> shortest() {
    const std::size_t n = chain_.size();
    const State start{1, 0, n, n};  // the chain's input stays
    std::map<State, double> best{{start, 0}};
    using Entry = std::pair<double, State>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    queue.emplace(0, start);
    while (!queue.empty()) {
      const auto [time, state] = queue.top();
      queue.pop();
      if (state.gradient == 0) return time;
      if (time > best.at(state)) continue;
      for (const auto& [cost, next] : moves(state)) {
        const auto [place, fresh] = best.emplace(next, time + cost);
        if (!fresh && place->second <= time + cost) continue;
        place->second = time + cost;
        queue.emplace(time + cost, next);
      }
    }
    return std::nullopt;
  }

 private:
  struct State {
    unsigned kept;        // a set of values
    unsigned graphs;      // of each step 3 bits: 0, or how it keeps its graph + 1
    std::size_t running;  // a value that may be dropped; n: none
    std::size_t gradient;
    auto operator<=>(const State&) const = default;
  };

  // Of a step's graph; nullptr: there is none.
  const GraphCost* graph(const State& state, std::size_t i) const {
    const unsigned keep = state.graphs >> 3 * i & 7;
    return keep == 0 ? nullptr : &chain_[i].graphs[keep - 1];
  }
  std::uint64_t value(std::size_t i) const { return i == 0 ? input_ : chain_[i - 1].output; }
  std::uint64_t gradient(std::size_t i) const { return i == 0 ? 0 : chain_[i - 1].gradient; }
  bool has(const State& state, std::size_t i) const {
    return (state.kept >> i & 1) || (i > 0 && graph(state, i - 1)) ||
           (state.running == i && i < chain_.size());
  }
  std::uint64_t live(const State& state) const {
    std::uint64_t bytes = gradient(state.gradient);
    for (std::size_t i = 0; i <= chain_.size(); ++i) bytes += has(state, i) ? value(i) : 0;
    for (std::size_t i = 0; i < chain_.size(); ++i)
      bytes += graph(state, i) ? graph(state, i)->saved : 0;
    return bytes;
  }
  std::vector<std::pair<double, State>> moves(const State& state) const {
    const std::size_t n = chain_.size();
    std::vector<std::pair<double, State>> found;
    for (std::size_t i = 0; i < n; ++i) {
      const StepCost& cost = chain_[i];
      const unsigned bit = 1u << i;
      if (const GraphCost* own = graph(state, i); own && state.gradient == i + 1) {
        State next{state.kept & ~bit, state.graphs & ~(7u << 3 * i), n, i};
        if (live(state) + gradient(i) + own->backward_extra <= budget_ && state.running == n)
          found.emplace_back(own->backward, next);
      }
      const bool kept = state.kept & bit, running = state.running == i;
      const bool of_graph = i > 0 && graph(state, i - 1);
      if (!(kept || running || of_graph) || graph(state, i) || state.gradient <= i) continue;
      if (state.running != n && !running) continue;  // what runs, runs on
      if (has(state, i + 1)) continue;
      const std::size_t next_running = i + 1 < n ? i + 1 : n;
      if (live(state) + cost.output + cost.forward_extra <= budget_ && i + 1 < n) {
        found.emplace_back(cost.forward,
                           State{state.kept | bit, state.graphs, next_running, state.gradient});
        if (running)
          found.emplace_back(cost.forward,
                             State{state.kept, state.graphs, next_running, state.gradient});
      }
      for (const Keep keep : kSearchedKeeps) {
        const GraphCost& own = cost.graph(keep);
        if (live(state) + cost.output + own.saved + own.graph_extra <= budget_)
          found.emplace_back(
              cost.forward, State{state.kept | bit, state.graphs | (unsigned(keep) + 1) << 3 * i, n,
                                  state.gradient});
      }
    }
    return found;
  }

  const Steps& chain_;
  std::uint64_t input_, budget_;
};

TEST(Schedule, SimulatesWhatAChainHolds) {
  const Steps chain = {step(10, {5, 2, 4, 2}, 1, 1), step(20, {7, 4, 8, 20}, 3, 10)};
  const Schedule schedule = make_schedule(Strategy::kNone, chain, 100);
  std::vector<std::uint64_t> highest, after;
  for (const OperationMemory& moment : memory_over_time(schedule, chain, 100)) {
    highest.push_back(moment.highest);
    after.push_back(moment.after);
  }
  EXPECT_THAT(highest,
              ::testing::ElementsAre(100 + 20 + 10 + 5 + 2,                // the first, and δ
                                     100 + 20 + 10 + 5 + 20 + 7 + 4,       // the second
                                     100 + 20 + 10 + 5 + 20 + 7 + 10 + 8,  // and back
                                     100 + 10 + 10 + 5 + 4));  // no gradient of the input
  EXPECT_THAT(after, ::testing::ElementsAre(135, 162, 125, 0));
  const Use use = simulate(schedule, chain, 100);
  EXPECT_EQ(use.peak, 180);
  EXPECT_EQ(use.seconds, 33);
}

// 3 bytes of the first output go with the second one, too, whether the first stays or not.
TEST(Schedule, WhatIsHandedOnCountsOnce) {
  Steps chain = {step(10, {}, 0, 1), step(20, {}, 0, 1)};
  chain[1].handed = 3;
  chain.push_back(step(1, {}, 0, 1));
  const Schedule keeps = make_schedule(Strategy::kCheap, chain, 100);
  EXPECT_EQ(memory_over_time(keeps, chain, 100)[1].after, 100 + 10 + 20 + 1);
  Schedule drops = {{Action::kForwardKeepInput, 0}, {Action::kForward, 1}};
  for (const std::size_t last : {2, 1, 0}) {
    for (std::size_t i = 0; last < 2 && i < last; ++i)
      drops.push_back({i == 0 ? Action::kForwardKeepInput : Action::kForward, i});
    drops.push_back({Action::kForwardWithGraph, last});
    drops.push_back({Action::kBackward, last});
  }
  const auto moments = memory_over_time(drops, chain, 100);
  EXPECT_EQ(moments[1].after, 100 + 20 + 3 + 1);
  EXPECT_EQ(moments.back().after, 0u);
}

TEST(Schedule, RefusesWhatCannotRun) {
  const Steps chain = vit_chain(1, false);
  const auto message = [&](const Schedule& schedule) -> std::string {
    try {
      simulate(schedule, chain, 1);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({{Action::kForward, 1}}), "step 1 cannot run forward: its input is not there");
  EXPECT_EQ(message({{Action::kForward, 0}, {Action::kForward, 0}}),
            "step 0 cannot run forward: its input is not there");
  EXPECT_EQ(message({{Action::kForwardWithGraph, 0}, {Action::kBackward, 0}}),
            "step 0 cannot run backward: its output has no gradient");
  EXPECT_EQ(message({{Action::kBackward, 2}}), "step 2 cannot run backward: it has no graph");
  EXPECT_EQ(message({{Action::kForwardWithGraph, 0}, {Action::kBackward, 0, Keep::kLean}}),
            "step 0 cannot run backward: its graph is another");
  EXPECT_EQ(message({{Action::kForwardWithGraph, 3}}),
            "step 3 cannot run forward with a graph: there is no such step");
  EXPECT_EQ(message({}), "step 2 does not run backward");
}

TEST(Schedule, EveryStrategyRunsEveryStepBackwardOnce) {
  for (const bool embedding : {false, true}) {
    for (const std::size_t blocks : {0, 1, 2, 3, 4, 12, 24}) {
      const Steps chain = vit_chain(blocks, embedding);
      const std::uint64_t input = 7, budget = 2 * min_memory(chain, input);
      for (const auto& [word, strategy] : kStrategies) {
        const Schedule schedule = make_schedule(strategy, chain, input, budget);
        SCOPED_TRACE(std::string(word) + ", blocks " + std::to_string(blocks));
        EXPECT_NO_THROW(simulate(schedule, chain, input));
        EXPECT_EQ(std::ranges::count(schedule, Action::kBackward, &Operation::action),
                  chain.size());
      }
    }
  }
}

// Less memory: first products, then whole steps are computed again.
TEST(Schedule, OptimalComputesAgainWhatTheBudgetAsksFor) {
  const Steps chain = vit_chain(12, true);
  const std::uint64_t input = input_of(chain);
  const auto use = [&](const Schedule& schedule) { return simulate(schedule, chain, input); };
  const std::uint64_t cheap = use(make_schedule(Strategy::kCheap, chain, input)).peak;
  const auto shares = [&](double share) {
    const Schedule schedule = make_schedule(Strategy::kOptimal, chain, input,
                                            static_cast<std::uint64_t>(share * double(cheap)));
    std::map<Keep, int> keeps;
    std::size_t again = 0;
    for (const Operation& operation : schedule) {
      if (operation.action == Action::kForwardWithGraph) ++keeps[operation.keep];
      again += operation.action != Action::kBackward;
    }
    return std::pair(keeps[Keep::kLean], again - chain.size());
  };
  EXPECT_EQ(shares(1), std::pair(0, std::size_t{0}));
  const auto [lean, again] = shares(0.8);
  EXPECT_GT(lean, 0);
  EXPECT_EQ(again, 0u);
  EXPECT_GT(shares(0.3).second, 10);
}

TEST(Schedule, OptimalIsTheBestOfAllOnSmallChains) {
  std::mt19937 random(19);
  std::size_t feasible = 0;
  for (int trial = 0; trial < 150; ++trial) {
    Steps chain = random_chain(random, 1 + trial % 4);
    if (trial % 3 == 0) std::ranges::fill(chain, chain.front());
    if (trial % 8 == 3) chain[2] = chain[1];  // of four, equal ones between others
    const std::uint64_t input = 1 + trial % 4;
    const std::uint64_t least = min_memory(chain, input);
    const std::uint64_t most =
        simulate(make_schedule(Strategy::kNone, chain, input), chain, input).peak;
    for (std::uint64_t budget = least > 0 ? least - 1 : 0; budget <= most; ++budget) {
      const std::optional<double> shortest = AnySchedule(chain, input, budget).shortest();
      const Schedule schedule = make_schedule(Strategy::kOptimal, chain, input, budget);
      ASSERT_EQ(schedule.empty(), !shortest.has_value()) << "trial " << trial << ", " << budget;
      ASSERT_EQ(schedule.empty(), budget < least);
      if (!shortest) continue;
      const Use use = simulate(schedule, chain, input);
      ASSERT_LE(use.peak, budget);
      ASSERT_EQ(use.seconds, *shortest) << "trial " << trial << ", budget " << budget;
      ++feasible;
    }
  }
  EXPECT_GT(feasible, 1000u);
}

TEST(Schedule, OptimalKeepsEveryBudgetAndIsNeverSlowerThanCheap) {
  for (const std::size_t blocks : {1, 4, 12, 24}) {
    const Steps chain = vit_chain(blocks, blocks % 8 == 4, 8);
    const std::uint64_t input = input_of(chain), least = min_memory(chain, input);
    const std::uint64_t most =
        simulate(make_schedule(Strategy::kNone, chain, input), chain, input).peak;
    EXPECT_TRUE(make_schedule(Strategy::kOptimal, chain, input, least - 1).empty());
    double before = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= 20; ++i) {
      const std::uint64_t budget = least + (most - least) / 20 * i + (i == 20) * 20;
      const Schedule schedule = make_schedule(Strategy::kOptimal, chain, input, budget);
      const Use use = simulate(schedule, chain, input);
      EXPECT_LE(use.peak, budget);
      EXPECT_LE(use.seconds, before * 1.01);
      before = use.seconds;
      const Use its = simulate(make_schedule(Strategy::kCheap, chain, input), chain, input);
      EXPECT_TRUE(its.peak > budget || use.seconds <= its.seconds);
    }
  }
}

// The time is recorded, not asserted: it is the machine's (0.1 s is the aim).
TEST(Schedule, PlansA24BlockChainWithinAnyBudget) {
  const Steps chain = vit_chain(24, true, 16);
  const std::uint64_t input = input_of(chain), least = min_memory(chain, input);
  double slowest = 0;
  for (const double factor : {1.0, 1.001, 1.1, 1.5, 2.5, 4.0}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(
        make_schedule(Strategy::kOptimal, chain, input, std::uint64_t(factor * least)).empty());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, took.count());
  }
  RecordProperty("slowest_ms", static_cast<int>(1000 * slowest));
}

}  // namespace
}  // namespace coldframe::tune
