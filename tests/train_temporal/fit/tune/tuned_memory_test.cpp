// A step of tuning keeps its budget, and goes on by a smaller way when memory runs out all the
// same.
#include <c10/util/Exception.h>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/torch/memory.h"
#include "tests/train_temporal/fit/tune/tuned_models.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/fit/tune/recompute_planner.h"
#include "train_temporal/fit/tune/trained_parameters.h"

namespace coldframe::tune::testing {
namespace {

class TunedMemory : public QuietTest {
 protected:
  void SetUp() override {
    QuietTest::SetUp();
    vit::Architecture architecture = vit::small_architecture(96, 3, 8, 8);
    architecture.depth = 6;
    architecture.mlp_hidden = 384;
    source = std::make_unique<TunedSource>(recipe_of(architecture, 64, {}), 2, "");
    rows = rows_of(*source, 12);
  }
  void TearDown() override {
    count_cpu_memory(0);
    QuietTest::TearDown();
  }

  // What steps take is measured once, so that ways do not depend on how quick a moment was.
  TuneOptions options(std::int64_t blocks) {
    TuneOptions found{.blocks = blocks};
    auto& costs = costs_[blocks];
    if (!costs)
      costs =
          std::make_shared<ChainCosts>(measure_costs(trained_shape(*source, found), torch::kCPU));
    found.costs = costs;
    return found;
  }
  TuneOptions options(std::int64_t blocks, std::uint64_t budget) {
    TuneOptions found = options(blocks);
    found.budget = budget;
    return found;
  }

  static void make_gradients(TunedVit& vit) {
    for (torch::Tensor& parameter : vit.trainable().parameters())
      parameter.mutable_grad() = torch::zeros_like(parameter);
  }

  // Bytes above what was live before the step; with `exam` frames in each, exams go in turn.
  std::uint64_t peak_of_step(TunedVit& vit, Step& step, std::int64_t exam = 0) const {
    make_gradients(vit);
    const std::int64_t all = rows.size(0);
    const std::vector<std::uint64_t> keys = keys_of(all);
    const std::uint64_t before = cpu_memory().live;
    reset_cpu_memory_peak();
    const std::int64_t at_once =
        exam > 0 ? std::max(vit.rows_at_once(all) / exam, std::int64_t{1}) * exam : all;
    for (std::int64_t from = 0; from < all; from += at_once) {
      const std::int64_t count = std::min(at_once, all - from);
      const auto head = [&](const torch::Tensor& features) {  // the mean is over all frames
        return loss_gradient(features) * (double(count) / double(all));
      };
      vit.step(rows.slice(0, from, from + count),
               std::span(keys).subspan(std::size_t(from), std::size_t(count)), {}, head);
    }
    const std::uint64_t peak = cpu_memory().peak - before;
    for (auto& parameter : vit.trainable().named_parameters())
      step.gradients[parameter.key()] = parameter.value().grad();
    step.features = vit.features(rows);
    return peak;
  }

  std::unique_ptr<TunedSource> source;
  torch::Tensor rows;

 private:
  std::map<std::int64_t, std::shared_ptr<const ChainCosts>> costs_;
};

TEST_F(TunedMemory, BudgetsAreKept) {
  TunedVit unlimited(*source, options(4), 1, torch::kCPU);
  Step expected;
  const std::uint64_t whole = peak_of_step(unlimited, expected);
  EXPECT_NEAR(double(whole) / double(unlimited.predicted_bytes(12)), 1, 0.02);
  for (const double part : {0.8, 0.5, 0.3, 0.2, 0.1}) {
    const auto budget = static_cast<std::uint64_t>(part * double(whole));
    TunedVit vit(*source, options(4, budget), 1, torch::kCPU);
    Step found;
    EXPECT_LE(peak_of_step(vit, found), budget) << part;
    expect_same(found, expected, 1e-5);
  }
}

// Four exams of three frames.
TEST_F(TunedMemory, ExamsInTurnKeepTheBudgetAndComputeNothingAgain) {
  TunedVit unlimited(*source, options(4), 1, torch::kCPU);
  EXPECT_EQ(unlimited.rows_at_once(12), 12);
  Step expected;
  const std::uint64_t whole = peak_of_step(unlimited, expected);
  for (const auto& [part, exams] : {std::pair{1.04, 4}, {0.8, 3}, {0.55, 2}, {0.3, 1}}) {
    const auto budget = static_cast<std::uint64_t>(part * double(whole));
    TunedVit vit(*source, options(4, budget), 1, torch::kCPU);
    EXPECT_EQ(vit.rows_at_once(12) / 3, exams) << part;
    EXPECT_EQ(vit.predicted_bytes(12, 3), unlimited.predicted_bytes(vit.rows_at_once(12))) << part;
    Step found;
    EXPECT_LE(peak_of_step(vit, found, 3), budget) << part;
    expect_same(found, expected, 1e-5);
  }
  TunedVit none(*source, options(4, whole / 20), 1, torch::kCPU);
  EXPECT_EQ(none.rows_at_once(12), 1);  // an exam goes by itself, in whatever way it fits
  EXPECT_EQ(none.predicted_bytes(12, 3),
            std::max(none.predicted_bytes(1), none.predicted_bytes(3)));
  TuneOptions with_head = options(4, whole);
  with_head.head = [=](std::int64_t n) { return static_cast<std::uint64_t>(n) * whole / 8; };
  TunedVit headed(*source, with_head, 1, torch::kCPU);
  EXPECT_LT(headed.rows_at_once(12), 9);  // beside what the head takes
}

TEST_F(TunedMemory, ABudgetThatHoldsNoFrameIsRefused) {
  for (const std::optional<Strategy> strategy : {std::optional<Strategy>(), {Strategy::kOptimal}}) {
    TuneOptions little = options(4, 100'000);
    little.strategy = strategy;
    TunedVit vit(*source, little, 1, torch::kCPU);
    EXPECT_GT(vit.predicted_bytes(12), 100'000);
    EXPECT_THROW(step_of(vit, rows), SystemError);
  }
}

TEST_F(TunedMemory, AFrameThatDoesNotFitForwardNamesWhatHelps) {
  TunedVit vit(*source, options(2), 1, torch::kCPU);
  count_cpu_memory(cpu_memory().live + 20'000);
  try {
    vit.features(rows.slice(0, 0, 1));
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("one frame forward through the ViT"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--cut"));
  }
}

TEST_F(TunedMemory, TheNextSmallerWayIsTakenWhenMemoryRunsOut) {
  TunedVit unlimited(*source, options(4), 1, torch::kCPU);
  Step expected;
  const std::uint64_t whole = peak_of_step(unlimited, expected);
  for (const double part : {0.9, 0.6, 0.3, 0.15, 0.08}) {
    TunedVit vit(*source, options(4), 1, torch::kCPU);
    make_gradients(vit);
    count_cpu_memory(cpu_memory().live + static_cast<std::uint64_t>(part * double(whole)));
    vit.step(rows, keys_of(rows.size(0)), {}, loss_gradient);
    EXPECT_GT(vit.learnt_budget(), 0u);
    EXPECT_LT(vit.learnt_budget(), whole);
    count_cpu_memory(0);
    Step found;
    for (auto& parameter : vit.trainable().named_parameters())
      found.gradients[parameter.key()] = parameter.value().grad();
    found.features = vit.features(rows);
    expect_same(found, expected, 1e-5);
    // A second step, or one of a fit that resumes, goes the learnt way at once.
    TunedVit resumed(*source, options(4), 1, torch::kCPU);
    resumed.set_learnt_budget(vit.learnt_budget());
    EXPECT_LE(resumed.predicted_bytes(12), vit.learnt_budget());
    Step again, same;
    peak_of_step(vit, again);
    peak_of_step(resumed, same);
    expect_same(same, again, 0);
  }
}

// Every allocation of the way back may be the one that fails: no sum may hold a part of a step.
TEST_F(TunedMemory, SumsAreWholeWhereverMemoryRunsOut) {
  Step expected;
  TunedVit unlimited(*source, options(2), 1, torch::kCPU);
  peak_of_step(unlimited, expected);
  TunedVit vit(*source, options(2), 1, torch::kCPU);
  make_gradients(vit);
  vit.step(rows, keys_of(rows.size(0)), {}, loss_gradient);
  for (std::uint64_t spare = 0; spare < 4'000'000; spare += 250'000) {
    TunedVit other(*source, options(2), 1, torch::kCPU);
    make_gradients(other);
    other.step(rows, keys_of(rows.size(0)), {}, [&](const torch::Tensor& features) {
      const torch::Tensor gradient = loss_gradient(features);
      count_cpu_memory(cpu_memory().live + spare + 500'000);
      return gradient;
    });
    count_cpu_memory(0);
    Step found;
    found.features = expected.features;
    for (auto& parameter : other.trainable().named_parameters())
      found.gradients[parameter.key()] = parameter.value().grad();
    expect_same(found, expected, 1e-5);
  }
}

// Fewer frames at a time take no less here.
TEST_F(TunedMemory, TheEndOfAllWaysNamesTheLastOne) {
  const auto task = [](std::int64_t frames) {
    StepTask found;
    found.frames = frames;
    found.chunks = std::make_shared<ChunkUses>([](std::int64_t) {
      StepCost step{1000, 1000, 0, 1};
      step.graphs.fill({1000, 0, 0, 1});
      return ChunkCost{{step}, 0};
    });
    return found;
  };
  RecomputePlanner ways(task, 0, Strategy::kNone);
  ways.choose(8);
  try {
    ways.shrink();
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("none, 8 frames at a time"), std::string::npos)
        << error.what();
  }
}

TEST_F(TunedMemory, AHeadThatRunsOutOfMemoryIsCalledAgainByTheCaller) {
  TunedVit vit(*source, options(2), 1, torch::kCPU);
  const auto fails = [](const torch::Tensor&) -> torch::Tensor {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory");
  };
  EXPECT_THROW(vit.step(rows, keys_of(12), {}, fails), c10::OutOfMemoryError);
  for (const torch::Tensor& parameter : vit.trainable().parameters())
    EXPECT_FALSE(parameter.grad().defined());
  EXPECT_GT(vit.learnt_budget(), 0u);
  TunedVit fresh(*source, options(2), 1, torch::kCPU);
  expect_same(step_of(vit, rows), step_of(fresh, rows), 1e-5);
}

TEST_F(TunedMemory, FrozenTensorsAreSharedBetweenFits) {
  const std::uint64_t before = cpu_memory().live;
  TunedVit one(*source, options(1), 1, torch::kCPU);
  const std::uint64_t of_one = cpu_memory().live - before;
  std::uint64_t trained = 0;
  for (const torch::Tensor& parameter : one.trainable().parameters()) trained += parameter.nbytes();
  EXPECT_LE(of_one, trained + trained / 20);
}

}  // namespace
}  // namespace coldframe::tune::testing
