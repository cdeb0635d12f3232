// Predicted bytes against those that LibTorch takes, on the CPU's counting allocator.
#include "train_temporal/tune/costs/costs.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <span>

#include "common/text/table.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"
#include "extract/vit/published/published.h"
#include "train_temporal/plan/measured_vit.h"

namespace coldframe::tune {
namespace {

struct Model {
  const char* name;
  std::int64_t image, depth, blocks, cut, lora, frames;
  vit::Pooling pooling = vit::Pooling::kCls;
  std::int64_t part = 1;  // of the published widths
};

// Five shapes: widths, tokens, kinds of layers, and parts that are trained.
constexpr Model kModels[] = {
    {"vit_small_patch16_224", 112, 3, 3, 0, 0, 16},
    {"vit_tiny_patch16_224", 112, 4, 3, 1, 0, 24, vit::Pooling::kMean},
    {"vit_small_patch14_dinov2", 112, 4, 2, 2, 0, 12, vit::Pooling::kClsMean},
    {"vit_base_patch32_224", 224, 2, 2, 0, 0, 8, vit::Pooling::kCls, 2},
    {"vit_small_patch16_224", 112, 3, 3, 0, 8, 16},
};
// More kinds of layers, of which each step is compared.
constexpr Model kOthers[] = {
    {"vit_base_patch16_clip_224", 112, 1, 1, 0, 0, 8, vit::Pooling::kCls, 2},
    {"vit_small_patch16_dinov3", 128, 1, 1, 0, 0, 8, vit::Pooling::kMean},
    {"vit_giant_patch14_dinov2", 70, 2, 1, 1, 0, 8, vit::Pooling::kCls, 4},
    {"vit_base_patch16_siglip_224", 112, 2, 1, 1, 0, 8, vit::Pooling::kMap, 2},
    {"vit_pwee_patch16_reg1_gap_256", 128, 1, 1, 0, 0, 2, vit::Pooling::kMean},
    {"vit_tiny_patch16_224", 448, 2, 1, 1, 0, 2},
};

// Predictions are exact but for oneDNN's buffers, which differ from processor to processor. It has
// them where the processor multiplies bfloat16 by itself; elsewhere that takes long.
bool has_buffers(bool half) {
  return half && bfloat16_products_have_buffers();
}
std::int64_t frames_of(const Model& model, bool half) {
  return has_buffers(half) ? model.frames : std::min<std::int64_t>(model.frames, half ? 1 : 2);
}

ChainShape shape_of(const Model& model, bool half) {
  ChainShape shape;
  shape.architecture = vit::find_published(model.name).architecture;
  vit::Architecture& sizes = shape.architecture;
  sizes.depth = model.depth;
  for (std::int64_t* size :
       {&sizes.width, &sizes.heads, &sizes.mlp_hidden, &sizes.pool_heads, &sizes.pool_hidden})
    *size /= model.part;
  shape.image_size = model.image;
  shape.features.pooling = model.pooling;
  shape.blocks = model.blocks;
  shape.cut = model.cut;
  shape.lora_rank = model.lora;
  shape.half = half;
  shape.eight_bits = true;
  shape.threads = at::get_num_threads();
  return shape;
}

double ratio(double predicted, double measured) {
  return measured == 0 ? (predicted == 0 ? 1 : 1e9) : predicted / measured;
}

constexpr double kMostOff = 0.03;

// What passes from step to step, and what a graph keeps: nothing of it is a buffer.
void expect_same_kept(const StepCost& predicted, const StepCost& measured) {
  EXPECT_EQ(predicted.output, measured.output);
  for (const auto& [word, keep] : kKeepWords) {
    SCOPED_TRACE(word);
    EXPECT_NEAR(ratio(predicted.output + predicted.graph(keep).saved,
                      measured.output + measured.graph(keep).saved),
                1, kMostOff);
  }
}

// All that is live while a step runs backward, with or without a gradient of its input, relative
// to what is measured.
double whole(const StepCost& step, Keep keep) {
  const GraphCost& graph = step.graph(keep);
  return static_cast<double>(2 * step.output + graph.saved + graph.backward_extra);
}

// What lives while a step runs.
void expect_same_peaks(const StepCost& predicted, const StepCost& measured) {
  EXPECT_NEAR(
      ratio(predicted.output + predicted.forward_extra, measured.output + measured.forward_extra),
      1, kMostOff);
  for (const auto& [word, keep] : kKeepWords) {
    const GraphCost &a = predicted.graph(keep), &b = measured.graph(keep);
    SCOPED_TRACE(word);
    EXPECT_NEAR(ratio(predicted.output + a.saved + a.graph_extra,
                      measured.output + b.saved + b.graph_extra),
                1, kMostOff);
    EXPECT_NEAR(ratio(whole(predicted, keep), whole(measured, keep)), 1, kMostOff)
        << a.backward_extra << " " << b.backward_extra;
  }
}

TEST(Costs, EveryStepTakesWhatItIsPredictedToTake) {
  count_cpu_memory();
  for (const auto& models : {std::span<const Model>(kModels), std::span<const Model>(kOthers)}) {
    for (const Model& model : models) {
      for (const bool half : {false, true}) {
        const ChainShape shape = shape_of(model, half);
        const std::int64_t frames = frames_of(model, half);
        const std::vector<StepCost> predicted = chunk_cost(shape, frames).chain;
        const std::vector<StepCost> measured = plan::MeasuredVit(shape, torch::kCPU).steps(frames);
        const std::vector<std::string> names = step_names(shape);
        ASSERT_EQ(predicted.size(), measured.size());
        for (std::size_t i = 0; i < predicted.size(); ++i) {
          SCOPED_TRACE(concat(model.name, half ? " bf16 " : " fp32 ", names[i]));
          expect_same_kept(predicted[i], measured[i]);
          if (!has_buffers(half)) expect_same_peaks(predicted[i], measured[i]);
        }
      }
    }
  }
}

double kept(const ChunkCost& cost, Keep keep) {
  double bytes = 0;
  for (const StepCost& step : cost.chain)
    bytes += static_cast<double>(step.output + step.graph(keep).saved);
  return bytes;
}

constexpr Model kWholeModels[] = {{"vit_small_patch16_224", 224, 12, 12, 0, 0, 8},
                                  {"vit_base_patch16_224", 224, 12, 12, 0, 0, 8}};

// A block of a ViT-S keeps 15 token-widths beside its output. Of these, 9 are expensive to compute
// again. Without fc1 it keeps 5, without qkv and proj either 1.
TEST(Costs, GraphsKeepWhatIsDear) {
  const ChunkCost cost = chunk_cost(shape_of(kWholeModels[0], false), 16);
  const double whole = kept(cost, Keep::kWhole);
  EXPECT_LE(kept(cost, Keep::kCheap), 0.64 * whole);
  EXPECT_LE(kept(cost, Keep::kSlim), 0.39 * whole);
  EXPECT_LE(kept(cost, Keep::kLean), 0.14 * whole);
  EXPECT_LE(kept(cost, Keep::kRounded), 0.45 * whole);  // 7 of 16 widths, and steps of groups
  for (const StepCost& step : cost.chain) {
    EXPECT_LE(step.graph(Keep::kCheap).backward, 1.05 * step.graph(Keep::kWhole).backward);
    EXPECT_LE(step.graph(Keep::kRounded).backward, 1.06 * step.graph(Keep::kCheap).backward);
    EXPECT_LE(step.graph(Keep::kSlim).backward,
              step.graph(Keep::kCheap).backward + 0.35 * step.forward);
    EXPECT_LE(step.graph(Keep::kLean).backward,
              1.02 * (step.graph(Keep::kWhole).backward + step.forward));
    if (&step == &cost.chain.front() || &step == &cost.chain.back()) continue;
    EXPECT_GE(step.graph(Keep::kRounded).backward, 1.005 * step.graph(Keep::kCheap).backward);
  }
}

// exams_that_fit() relies on it.
TEST(Costs, MoreFramesTakeMoreMemory) {
  for (const bool half : {false, true}) {
    StepTask task = step_task(shape_of(kWholeModels[0], half), 1);
    std::uint64_t before = 0;
    for (task.frames = 1; task.frames <= 40; ++task.frames) {
      const std::uint64_t peak = use_of({Strategy::kCheap, task.frames, 1, 0}, task).peak;
      EXPECT_GT(peak, before) << task.frames;
      before = peak;
    }
  }
}

TEST(Costs, CheapTakesLessThanTwoThirds) {
  for (const Model& model : kWholeModels) {
    for (const std::int64_t frames : {8, 16, 32, 64}) {
      for (const bool half : {false, true}) {
        const ChunkCost cost = chunk_cost(shape_of(model, half), frames);
        const auto use = [&](Strategy strategy) {
          return simulate(make_schedule(strategy, cost.chain, cost.input), cost.chain, cost.input);
        };
        const Use none = use(Strategy::kNone), cheap = use(Strategy::kCheap);
        SCOPED_TRACE(concat(model.name, ", ", frames, half ? " frames, bf16" : " frames, fp32"));
        EXPECT_LE(ratio(cheap.peak, none.peak), half ? 0.62 : 0.64);
        EXPECT_LE(cheap.seconds, 1.01 * none.seconds);
      }
    }
  }
}

// Each chunk reads the weights anew, and adds up their gradients.
TEST(Costs, FramesOneByOneTakeLonger) {
  const auto seconds = [](std::int64_t frames) {
    const ChunkCost cost = chunk_cost(shape_of(kWholeModels[0], false), frames);
    return simulate(make_schedule(Strategy::kCheap, cost.chain, cost.input), cost.chain, cost.input)
        .seconds;
  };
  EXPECT_GT(8 * seconds(1), 1.1 * seconds(8));
  EXPECT_LT(8 * seconds(1), 1.3 * seconds(8));
}

struct Planned {
  const char* name;
  Strategy strategy;
  double budget;  // of kOptimal: from the least (0) to that of none (1)
  bool eight_bits = false;
};
constexpr Planned kPlanned[] = {{"none", Strategy::kNone, 0},
                                {"cheap", Strategy::kCheap, 0},
                                {"optimal 0", Strategy::kOptimal, 0},
                                {"optimal 0.4", Strategy::kOptimal, 0.4},
                                {"8 bits 0", Strategy::kOptimal, 0, true},
                                {"8 bits 0.4", Strategy::kOptimal, 0.4, true}};

// Where oneDNN has buffers, peaks follow from steps that were measured on this processor.
TEST(Costs, PeaksOfSchedulesAreAsPredicted) {
  count_cpu_memory();
  TextRows table{{"model", "precision", "strategy", "MiB", "predicted / measured"}};
  for (const Model& model : kModels) {
    for (const bool half : {false, true}) {
      ChainShape shape = shape_of(model, half);
      const std::int64_t frames = frames_of(model, half);
      plan::MeasuredVit vit(shape, torch::kCPU);
      const auto measured_steps = has_buffers(half) ? vit.steps(frames) : std::vector<StepCost>();
      for (const Planned& planned : kPlanned) {
        shape.eight_bits = planned.eight_bits;
        ChunkCost cost = chunk_cost(shape, frames);
        for (std::size_t i = 0; i < measured_steps.size(); ++i) {
          cost.chain[i] = measured_steps[i];
          cost.chain[i].graphs.resize(keeps(planned.eight_bits).size());
        }
        const auto none = simulate(make_schedule(Strategy::kNone, cost.chain, cost.input),
                                   cost.chain, cost.input);
        const std::uint64_t least = least_memory(cost.chain, cost.input);
        const auto budget = least + static_cast<std::uint64_t>(
                                        planned.budget * static_cast<double>(none.peak - least));
        const Schedule schedule = make_schedule(planned.strategy, cost.chain, cost.input, budget);
        const Use predicted = simulate(schedule, cost.chain, cost.input);
        const Use measured = vit.follow(schedule, frames);
        const double quotient = ratio(predicted.peak, measured.peak);
        SCOPED_TRACE(concat(model.name, half ? " bf16 " : " fp32 ", planned.name));
        EXPECT_NEAR(quotient, 1, has_buffers(half) ? 0.03 : 0.01);
        if (planned.strategy == Strategy::kOptimal) {
          EXPECT_LE(measured.peak, 1.01 * static_cast<double>(budget));
        }
        table.push_back({model.name, half ? "bf16" : "fp32", planned.name,
                         fixed(static_cast<double>(measured.peak) / (1 << 20), 1),
                         fixed(quotient, 3)});
      }
    }
  }
  EXPECT_EQ(table.size(), 61);
  write_table(table, std::cout);
}

}  // namespace
}  // namespace coldframe::tune
