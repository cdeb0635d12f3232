// Steps that were measured one by one, against whole steps on the CPU's counting allocator.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "common/text/table.h"
#include "common/text/text.h"
#include "common/torch/memory.h"
#include "extract/vit/published/published.h"
#include "tests/train_temporal/fit/tune/tuned_models.h"
#include "train_temporal/fit/tune/measured_costs.h"
#include "train_temporal/plan/measure.h"

namespace coldframe::tune::testing {
namespace {

struct Model {
  const char* name;
  std::int64_t image, depth, blocks, cut, lora, frames;
  vit::Pooling pooling = vit::Pooling::kCls;
  std::int64_t layers = 0;  // side by side: each so many
};

// Widths, tokens, kinds of layers, and parts that are trained: T, S and B; gated; with registers.
// bfloat16 is slow where a processor has no products of it: in it all are as wide as T.
constexpr Model kModels[] = {
    {"vit_tiny_patch16_224", 112, 4, 3, 1, 0, 12, vit::Pooling::kMean},
    {"vit_tiny_patch16_224", 112, 6, 5, 1, 0, 8, vit::Pooling::kNone, 2},
    {"vit_small_patch16_224", 112, 3, 3, 0, 0, 8},
    {"vit_small_patch16_224", 112, 3, 3, 0, 8, 8},
    {"vit_base_patch32_224", 224, 2, 2, 0, 0, 4},
    {"vit_small_plus_patch16_dinov3", 112, 3, 3, 0, 0, 8, vit::Pooling::kMean},
    {"vit_small_patch14_reg4_dinov2", 112, 4, 2, 2, 0, 8, vit::Pooling::kClsMean},
};

constexpr const Model& kSmall = kModels[2];

ChainShape shape_of(const Model& model, bool half) {
  ChainShape shape;
  shape.architecture = vit::find_published(model.name).architecture;
  shape.architecture.depth = model.depth;
  if (half) {
    vit::Architecture& vit = shape.architecture;
    vit.mlp_hidden = vit.mlp_hidden * 192 / vit.width;
    vit.width = 192;
    vit.heads = 3;
  }
  shape.image_size = model.image;
  shape.features.pooling = model.pooling;
  if (model.layers > 0)
    for (std::int64_t layer = model.cut + 1; layer <= model.depth; layer += model.layers)
      shape.features.layers.push_back(layer);
  shape.blocks = model.blocks;
  shape.cut = model.cut;
  shape.lora_rank = model.lora;
  if (half) shape.precision = torch::kBFloat16;
  return shape;
}

// Steps within a part of what everything takes that is kept.
constexpr double kParts[] = {1.1, 0.5, 0.2};

class Costs : public QuietTest, public ::testing::WithParamInterface<bool> {};
class MeasuredCosts : public QuietTest {};

// Of exams of four frames, that go in turn where they can, and all together.
TEST_P(Costs, WholeStepsTakeWhatMeasuredBlocksSay) {
  TextRows table{{"model", "trained", "precision", "part", "by", "MiB", "predicted / measured"}};
  for (const Model& model : kModels) {
    const ChainShape shape = shape_of(model, GetParam());
    const auto costs = std::make_shared<const ChainCosts>(measure_costs(shape, torch::kCPU));
    const StepTask task = step_task(*costs, chunk_uses(costs), model.frames);
    const std::uint64_t whole = use_of({Strategy::kNone, model.frames, 1, 0}, task).peak;
    plan::MeasuredVit vit(shape, costs, torch::kCPU);
    for (const double part : kParts) {
      const auto budget = static_cast<std::uint64_t>(part * double(whole));
      for (const std::int64_t exams : {std::int64_t{1}, model.frames / 4}) {
        const auto task_of = [&](std::int64_t some) {
          StepTask of_some = task;
          of_some.frames = some * model.frames / exams;
          return of_some;
        };
        const std::int64_t at_once = exams_that_fit(exams, budget, Strategy::kCheap, task_of);
        const RankedSchedule way = rank_schedules(task_of(at_once), budget).front();
        if (!way.fits) continue;
        const Use measured = vit.step(budget, exams, model.frames / exams);
        const double quotient = double(way.use.peak) / double(measured.peak);
        SCOPED_TRACE(concat(model.name, " ", part, " ", to_string(way.way)));
        EXPECT_NEAR(quotient, 1, 0.02);
        EXPECT_LE(measured.peak, budget);
        table.push_back({model.name, concat(model.blocks, model.lora > 0 ? " LoRA" : ""),
                         GetParam() ? "bf16" : "fp32", fixed(part, 2), to_string(way.way),
                         fixed(double(measured.peak) / (1 << 20), 1), fixed(quotient, 3)});
      }
    }
  }
  write_table(table, std::cout);
}

INSTANTIATE_TEST_SUITE_P(, Costs, ::testing::Bool(),
                         [](const auto& half) { return half.param ? "bf16" : "fp32"; });

// Block by block: a ViT-S keeps 15 token-widths of each beside its output. Of these, 9 are
// expensive to compute again; without qkv, proj and fc1 it keeps 1.
TEST_F(MeasuredCosts, GraphsKeepWhatIsDear) {
  const ChainCosts costs = measure_costs(shape_of(kSmall, false), torch::kCPU);
  const ChunkCost cost = costs.chunk(16);
  const auto kept = [&](Keep keep) {
    double bytes = 0;
    for (const StepCost& step : cost.chain)
      bytes += static_cast<double>(step.output + step.graph(keep).saved);
    return bytes;
  };
  const double whole = kept(Keep::kWhole);
  EXPECT_LE(kept(Keep::kCheap), 0.64 * whole);
  EXPECT_LE(kept(Keep::kLean), 0.14 * whole);
  for (const StepCost& step : cost.chain) EXPECT_GT(step.forward, 0);
}

// exams_that_fit() relies on it.
TEST_F(MeasuredCosts, MoreFramesTakeMoreMemory) {
  for (const bool half : {false, true}) {
    const auto costs =
        std::make_shared<const ChainCosts>(measure_costs(shape_of(kSmall, half), torch::kCPU));
    StepTask task = step_task(*costs, chunk_uses(costs), 1);
    std::uint64_t before = 0;
    for (task.frames = 1; task.frames <= 40; ++task.frames) {
      const std::uint64_t peak = use_of({Strategy::kCheap, task.frames, 1, 0}, task).peak;
      EXPECT_GT(peak, before) << task.frames;
      before = peak;
    }
  }
}

// A run that is gone on with has them from its configuration.
TEST_F(MeasuredCosts, AreReadAsTheyWereWritten) {
  const ChainCosts costs = measure_costs(shape_of(kModels[0], false), torch::kCPU);
  const ChainCosts read = costs_from_json(parse_json(to_json(costs).dump(), "costs"));
  EXPECT_EQ(read.names, costs.names);
  EXPECT_EQ(read.chunk(7).chain, costs.chunk(7).chain);
  EXPECT_EQ(read.chunk(7).input, costs.chunk(7).input);
}

// They are not taken for another ViT, another part of it, or another precision.
TEST_F(MeasuredCosts, AreOfOneShape) {
  const ChainShape shape = shape_of(kModels[0], false);
  const ChainCosts costs = measure_costs(shape, torch::kCPU);
  EXPECT_TRUE(are_of(costs, shape, torch::kCPU));
  ChainShape fewer = shape, larger = shape, half = shape, dropped = shape, low_rank = shape;
  fewer.blocks = 1;
  larger.image_size = 128;
  half.precision = torch::kBFloat16;
  dropped.drop_path = 0.1;
  low_rank.lora_rank = 4;
  for (const ChainShape& other : {fewer, larger, half, dropped, low_rank})
    EXPECT_FALSE(are_of(costs, other, torch::kCPU));
}

// Layers side by side: what is handed on grows with each.
TEST_F(MeasuredCosts, LaterLayersTakeMore) {
  const ChunkCost cost = measure_costs(shape_of(kModels[1], false), torch::kCPU).chunk(8);
  const StepCost &first = cost.chain[1], &between = cost.chain[2], &second = cost.chain[3];
  EXPECT_GT(between.handed, 0u);
  EXPECT_EQ(first.output - between.output, between.handed);
  EXPECT_EQ(second.output - first.output, between.handed);
  EXPECT_EQ(cost.chain[4].handed, 2 * between.handed);
}

// Of measured costs, at 100 budgets: exams go in turn, or together.
TEST_F(MeasuredCosts, LessMemoryIsNeverFasterAndNeverRefused) {
  ChainShape shape = shape_of(kSmall, false);
  shape.blocks = shape.architecture.depth = 12;
  const auto costs = std::make_shared<const ChainCosts>(measure_costs(shape, torch::kCPU));
  for (const std::int64_t most : {1, 4}) {
    StepTask task = step_task(*costs, chunk_uses(costs), 0);
    const auto task_of = [&](std::int64_t exams) {
      task.frames = 16 / most * exams;
      return task;
    };
    const std::uint64_t all = use_of({Strategy::kNone, 16, 1, 0}, task_of(most)).peak;
    const std::uint64_t least =
        rank_schedules(task_of(1), 1, Strategy::kOptimal).front().use.peak + 4096;
    double before = 0;
    for (std::uint64_t i = 0; i <= 100; ++i) {
      const std::uint64_t budget = all - (all - least) / 100 * i;
      const std::int64_t exams = exams_that_fit(most, budget, Strategy::kCheap, task_of);
      double seconds = 0;
      for (std::int64_t left = most; left > 0; left -= exams) {
        const RankedSchedule way = rank_schedules(task_of(std::min(exams, left)), budget).front();
        ASSERT_TRUE(way.fits) << budget;
        seconds += way.use.seconds;
      }
      EXPECT_GE(seconds, 0.99 * before) << i;
      before = std::max(before, seconds);
    }
  }
}

// Of frames that are large compared with the weights.
TEST_F(MeasuredCosts, FewerFramesAreRunWhereMemoryRunsOut) {
  ChainShape shape = shape_of(kModels[0], false);
  shape.image_size = 224;
  const std::uint64_t live = cpu_memory().live;
  reset_cpu_memory_peak();
  EXPECT_FALSE(measure_costs(shape, torch::kCPU).steps.begin()->second.contains(1));
  int fewer = 0;
  for (std::uint64_t room = cpu_memory().peak - live - 1;; room -= room / 8) {
    count_cpu_memory(live + room);
    std::shared_ptr<const ChainCosts> costs;
    try {
      costs = std::make_shared<const ChainCosts>(measure_costs(shape, torch::kCPU));
    } catch (const c10::OutOfMemoryError&) {
      break;
    }
    count_cpu_memory();
    EXPECT_TRUE(costs->steps.begin()->second.contains(1));
    const StepTask task = step_task(*costs, chunk_uses(costs), 1);
    const Use measured = plan::MeasuredVit(shape, costs, torch::kCPU).step(0, 1, 1);
    EXPECT_NEAR(double(use_of({Strategy::kCheap, 1, 1, 0}, task).peak) / double(measured.peak), 1,
                0.02);
    ++fewer;
  }
  count_cpu_memory();
  EXPECT_GE(fewer, 2);  // two frames, then one
}

}  // namespace
}  // namespace coldframe::tune::testing
