// Steps that were measured one by one, against whole steps on the CPU's counting allocator.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "common/text/table.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"
#include "extract/vit/published/published.h"
#include "train_temporal/plan/measure.h"
#include "train_temporal/tune/measured_costs.h"

namespace coldframe::tune {
namespace {

struct Model {
  const char* name;
  std::int64_t image, depth, blocks, cut, lora, frames;
  vit::Pooling pooling = vit::Pooling::kCls;
};

// Widths, tokens, kinds of layers, and parts that are trained: T, S and B; gated; with registers.
constexpr Model kModels[] = {
    {"vit_tiny_patch16_224", 112, 4, 3, 1, 0, 12, vit::Pooling::kMean},
    {"vit_small_patch16_224", 112, 3, 3, 0, 0, 8},
    {"vit_small_patch16_224", 112, 3, 3, 0, 8, 8},
    {"vit_base_patch32_224", 224, 2, 2, 0, 0, 4},
    {"vit_small_plus_patch16_dinov3", 112, 3, 3, 0, 0, 8, vit::Pooling::kMean},
    {"vit_small_patch14_reg4_dinov2", 112, 4, 2, 2, 0, 8, vit::Pooling::kClsMean},
};

ChainShape shape_of(const Model& model, bool half) {
  ChainShape shape;
  shape.architecture = vit::find_published(model.name).architecture;
  shape.architecture.depth = model.depth;
  shape.image_size = model.image;
  shape.features.pooling = model.pooling;
  shape.blocks = model.blocks;
  shape.cut = model.cut;
  shape.lora_rank = model.lora;
  if (half) shape.precision = torch::kBFloat16;
  return shape;
}

// Steps within a part of what everything takes that is kept.
constexpr double kParts[] = {1.1, 0.5, 0.2};

class Costs : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { count_cpu_memory(); }
};

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
        const ConsideredWay way = consider_ways(task_of(at_once), budget).front();
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
// expensive to compute again. Without fc1 it keeps 5, without qkv and proj either 1.
TEST(MeasuredCosts, GraphsKeepWhatIsDear) {
  count_cpu_memory();
  const ChainCosts costs = measure_costs(shape_of(kModels[1], false), torch::kCPU);
  const ChunkCost cost = costs.chunk(16);
  const auto kept = [&](Keep keep) {
    double bytes = 0;
    for (const StepCost& step : cost.chain)
      bytes += static_cast<double>(step.output + step.graph(keep).saved);
    return bytes;
  };
  const double whole = kept(Keep::kWhole);
  EXPECT_LE(kept(Keep::kCheap), 0.64 * whole);
  EXPECT_LE(kept(Keep::kSlim), 0.39 * whole);
  EXPECT_LE(kept(Keep::kLean), 0.14 * whole);
  for (const StepCost& step : cost.chain) EXPECT_GT(step.forward, 0);
}

// exams_that_fit() relies on it.
TEST(MeasuredCosts, MoreFramesTakeMoreMemory) {
  count_cpu_memory();
  for (const bool half : {false, true}) {
    const auto costs =
        std::make_shared<const ChainCosts>(measure_costs(shape_of(kModels[1], half), torch::kCPU));
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
TEST(MeasuredCosts, AreReadAsTheyWereWritten) {
  count_cpu_memory();
  const ChainCosts costs = measure_costs(shape_of(kModels[0], false), torch::kCPU);
  const ChainCosts read = costs_from_json(parse_json(to_json(costs).dump(), "costs"));
  EXPECT_EQ(read.names, costs.names);
  EXPECT_EQ(read.chunk(7).chain, costs.chunk(7).chain);
  EXPECT_EQ(read.chunk(7).input, costs.chunk(7).input);
}

}  // namespace
}  // namespace coldframe::tune
