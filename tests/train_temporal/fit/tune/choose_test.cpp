// The choice of a way, on a chain of which every frame takes the same.
#include "train_temporal/fit/tune/schedule.h"

#include <gmock/gmock.h>

#include <limits>

namespace coldframe::tune {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// Half is kept for a hundredth more time, a quarter for a tenth.
StepCost step(std::uint64_t output, std::uint64_t forward_extra, double forward,
              const GraphCost& whole) {
  StepCost cost{output, output, forward_extra, forward};
  cost.graphs.fill(whole);
  GraphCost &cheap = cost.graph(Keep::kCheap), &lean = cost.graph(Keep::kLean);
  cheap.saved /= 2;
  cheap.backward *= 1.01;
  lean.saved /= 4;
  lean.backward *= 1.1;
  return cost;
}

// Twelve blocks; weights' gradients and a start-up time do not grow with the frames.
StepTask task_of(std::int64_t frames) {
  StepTask task;
  task.frames = frames;
  task.feature_bytes = 1536;
  task.chunks = std::make_shared<ChunkUses>([](std::int64_t n) {
    const std::uint64_t x = static_cast<std::uint64_t>(n) * 302592;
    const auto time = static_cast<double>(n);
    ChunkCost cost{{}, x};
    for (int i = 0; i < 12; ++i)
      cost.chain.push_back(
          step(x, 9 * x, 5 * time + 2, {15 * x, x, 4 * x + 7 * kMiB, 10 * time + 4}));
    cost.chain.push_back(step(static_cast<std::uint64_t>(n) * 1536, x, 0.1, {x / 96, x, x, 0.1}));
    return cost;
  });
  return task;
}

TEST(Choose, WithoutABudgetAllRunsOnce) {
  const std::vector<RankedSchedule> ways = rank_schedules(task_of(64), 0);
  EXPECT_EQ(ways.front().way, (Way{Strategy::kCheap, 64, 1, 0}));
  EXPECT_EQ(to_string(ways.front().way), "cheap, 64 frames at a time, 1 chunk kept");
  EXPECT_EQ(rank_schedules(task_of(64), 0, Strategy::kNone).front().way,
            (Way{Strategy::kNone, 64, 1, 0}));
}

// A clock says of some sizes and graphs that they take next to no time.
TEST(Choose, NoiseInMeasuredTimesDividesNothingThatFits) {
  const std::uint64_t cheap = use_of({Strategy::kCheap, 12, 1, 0}, task_of(12)).peak;
  for (const std::int64_t quick : {1, 2, 4, 8, 12}) {
    for (const Keep keep : kKeeps) {
      StepTask task = task_of(12);
      task.chunks = std::make_shared<ChunkUses>([=, true_costs = task.chunks](std::int64_t n) {
        ChunkCost cost = true_costs->cost(n);
        for (StepCost& step : cost.chain)
          if (n == quick) step.graph(keep).backward = step.forward = 1e-6;
        return cost;
      });
      EXPECT_EQ(rank_schedules(task, cheap + cheap / 40).front().way,
                (Way{Strategy::kCheap, 12, 1, 0}))
          << quick << ", " << word_for(kKeepWords, keep);
    }
  }
}

TEST(Choose, TheFastestThatFitsGoesFirstAndWhatDoesNotFitLast) {
  const StepTask task = task_of(64);
  double before = 0;
  for (const std::uint64_t budget : {8192, 4096, 2048, 1024, 512, 256, 128, 64, 32}) {
    const std::vector<RankedSchedule> ways = rank_schedules(task, budget * kMiB);
    ASSERT_TRUE(ways.front().fits) << budget;
    EXPECT_GE(ways.front().use.seconds, before);
    before = ways.front().use.seconds;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      EXPECT_EQ(ways[i].fits, ways[i].use.peak <= planned_part(budget * kMiB));
      EXPECT_GE(ways[i == 0 ? 0 : i - 1].fits, ways[i].fits);
      EXPECT_EQ(ways[i].use.peak, use_of(ways[i].way, task).peak);
    }
  }
  for (const auto& [word, strategy] : kStrategies) {
    const std::vector<RankedSchedule> ways = rank_schedules(task, 4 * kMiB, strategy);
    ASSERT_FALSE(ways.empty()) << word;
    EXPECT_FALSE(ways.front().fits) << word;
  }
  EXPECT_FALSE(rank_schedules(task, 4 * kMiB).front().fits);
}

// Costs are measured within 2 %: what comes nearer to a budget is not taken, unless nothing smaller
// is there.
TEST(Choose, TheNextSmallerWayIsTakenWithinTwoPercentOfABudget) {
  const StepTask task = task_of(16);
  const std::uint64_t cheap = use_of({Strategy::kCheap, 16, 1, 0}, task).peak;
  EXPECT_EQ(rank_schedules(task, cheap + cheap / 48).front().way.strategy, Strategy::kCheap);
  const RankedSchedule smaller = rank_schedules(task, cheap + cheap / 100).front();
  EXPECT_NE(smaller.way.strategy, Strategy::kCheap);
  EXPECT_LE(smaller.use.peak, planned_part(cheap + cheap / 100));
  const std::uint64_t least = rank_schedules(task, 1, Strategy::kOptimal).front().use.peak + 4096;
  for (const std::uint64_t budget : {least, least + least / 100, least + least / 40})
    EXPECT_TRUE(rank_schedules(task, budget).front().fits) << budget;
  EXPECT_FALSE(rank_schedules(task, least - 8192).front().fits);
}

// Exams that go in turn, and an exam that is too large by itself.
TEST(Choose, LessMemoryIsNeverFaster) {
  const auto task_of_exams = [](std::int64_t exams) { return task_of(8 * exams); };
  const std::uint64_t most = use_of({Strategy::kNone, 64, 1, 0}, task_of(64)).peak;
  const std::uint64_t least =
      rank_schedules(task_of(8), 1, Strategy::kOptimal).front().use.peak + 4096;
  double before = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= 100; ++i) {
    const std::uint64_t budget = least + (most - least) / 100 * std::uint64_t(i);
    const auto exams = exams_that_fit(8, budget, Strategy::kCheap, task_of_exams);
    double seconds = 0;
    for (std::int64_t left = 8; left > 0; left -= exams) {
      const RankedSchedule way =
          rank_schedules(task_of_exams(std::min(exams, left)), budget).front();
      ASSERT_TRUE(way.fits) << budget;
      EXPECT_LE(way.use.peak, budget);
      seconds += way.use.seconds;
    }
    EXPECT_LE(seconds, 1.01 * before) << i;
    before = std::min(before, seconds);
  }
}

TEST(Choose, OneChunkTakesItsSchedulesPeak) {
  StepTask task = task_of(8);
  const ChunkCost cost = task.chunks->cost(8);
  for (const Strategy strategy : {Strategy::kNone, Strategy::kCheap}) {
    const Use alone =
        simulate(make_schedule(strategy, cost.chain, cost.input), cost.chain, cost.input);
    const Use use = use_of({strategy, 8, 1, 0}, task);
    EXPECT_EQ(use.peak, alone.peak + 8 * 1536);  // the features' gradient stays
    EXPECT_EQ(use.seconds, alone.seconds);
    EXPECT_GT(use_of({strategy, 8, 0, 0}, task).seconds, alone.seconds);
  }
  task.fixed = 7 * kMiB;
  EXPECT_EQ(use_of({Strategy::kNone, 8, 1, 0}, task).peak,
            use_of({Strategy::kNone, 8, 1, 0}, task_of(8)).peak + 8 * 7 * kMiB);
  task.head = 1024 * kMiB;
  EXPECT_GT(use_of({Strategy::kNone, 8, 0, 0}, task).peak, 1024 * kMiB);
}

TEST(Choose, KeptChunksAddUpAndTheRestDoesNot) {
  const StepTask task = task_of(20);  // chunks of 8, 8 and 4
  const auto peak = [&](std::int64_t kept) {
    return use_of({Strategy::kNone, 8, kept, 0}, task).peak;
  };
  const ChunkCost full = task.chunks->cost(8);
  const std::vector<OperationMemory> moments = memory_over_time(
      make_schedule(Strategy::kNone, full.chain, full.input), full.chain, full.input);
  const std::uint64_t kept = moments[full.chain.size() - 1].after - full.chain.back().output;
  EXPECT_EQ(peak(0), peak(1));  // the last chunk is half as large
  EXPECT_GT(peak(2), peak(1));
  EXPECT_EQ(peak(3) - peak(2), kept);
  EXPECT_GT(peak(0), use_of({Strategy::kNone, 8, 1, 0}, task_of(8)).peak);
  EXPECT_EQ(use_of({Strategy::kNone, 8, 1, 0}, task_of(8)).peak - 8 * 1536,
            use_of({Strategy::kNone, 8, 0, 0}, task_of(16)).peak - 16 * 1536);
}

// Each chunk has a start-up time, so a few frames at a time that keep less are faster than single
// frames.
TEST(Choose, FewFramesAtATimeAreFasterThanSingleOnes) {
  const StepTask task = task_of(8);
  const std::uint64_t whole = use_of({Strategy::kNone, 8, 1, 0}, task).peak;
  const RankedSchedule best = rank_schedules(task, whole / 8).front();
  EXPECT_TRUE(best.fits);
  EXPECT_GT(best.way.chunk, 1) << to_string(best.way);
}

}  // namespace
}  // namespace coldframe::tune
