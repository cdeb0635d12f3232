// The GPU engine against the readable ViT: on the CPU with the kernels' twins, and on a GPU where
// there is one.
#include "extract/vit/gpu/engine.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <map>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "extract/cuda/library.h"
#include "tests/common/torch/fake_graph.h"
#include "tests/extract/cuda/twin.h"
#include "tests/extract/vit/engine_models.h"
#include "tests/support/gpu_test.h"

namespace coldframe::vit::gpu {
namespace {

Architecture shape(std::int64_t width, std::int64_t heads, std::int64_t patch, std::int64_t grid) {
  Architecture architecture = small_architecture(width, heads, patch, grid);
  architecture.depth = 3;
  architecture.mlp_hidden = 4 * width;
  return architecture;
}

std::vector<SmallModel> plain_models() {
  Architecture shallow = shape(64, 2, 4, 4);
  shallow.depth = 1;
  return {{"at_224", shape(64, 1, 16, 14), 224},
          {"dinov2_with_registers_at_other_size", with_registers(shape(64, 1, 14, 4)), 112},
          {"no_class_token", without_class_token(shape(96, 2, 4, 4)), 16},
          {"fc_norm", with_fc_norm(shape(64, 2, 4, 4)), 16},
          {"one_block", shallow, 16},
          {"odd_patch", shape(60, 3, 7, 3), 21}};
}

std::vector<SmallModel> models() {
  std::vector<SmallModel> all = plain_models();
  for (const SmallModel& one : models_of_other_blocks(shape(64, 2, 4, 4))) all.push_back(one);
  for (const SmallModel& one : beyond_plain_models()) all.push_back(one);
  return all;
}

EngineOptions options_for(const SmallModel& one, Pooling pooling, torch::ScalarType type) {
  EngineOptions options;
  options.type = type;
  options.features.pooling = pooling;
  options.image_size = one.image_size;
  return options;
}

struct Input {
  torch::Tensor frames, levels, images;  // uint8, [3, 256], and what the two make
};

Input make_input(std::int64_t batch, std::int64_t size) {
  torch::manual_seed(2);
  Input input{torch::randint(256, {batch, size, size, 3}, torch::kUInt8), {}, {}};
  const torch::Tensor scale = torch::tensor({0.02f, 0.015f, 0.01f}).view({3, 1});
  input.levels = (torch::arange(256).to(torch::kFloat).view({1, 256}) - 110) * scale;
  std::vector<torch::Tensor> planes;
  for (int channel = 0; channel < 3; ++channel)
    planes.push_back(
        input.levels[channel].index({input.frames.select(3, channel).to(torch::kInt64)}));
  input.images = torch::stack(planes, 1).contiguous();
  return input;
}

void expect_equal(const torch::Tensor& found, const torch::Tensor& expected,
                  torch::ScalarType type) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  if (type == torch::kFloat)
    EXPECT_LE((found - expected).abs().max().item<double>(), 5e-5);
  else
    EXPECT_GE(at::cosine_similarity(found, expected).min().item<double>(),
              type == torch::kHalf ? 0.99999 : 0.9995);
}

// Calls `check` for every model, pooling and type, with what the readable ViT makes of the input.
template <typename Check>
void for_every_engine(const Check& check) {
  at::set_num_threads(1);  // such small models make threads wait for one another
  for (const SmallModel& one : models()) {
    VisionTransformer model = one.make();
    const Input input = make_input(3, one.image_size);
    const torch::Tensor tokens = model->forward_features(input.images);
    for (const Pooling pooling : poolings_of(one.architecture))
      for (const torch::ScalarType type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
        SCOPED_TRACE(one.name + ", " + to_string(pooling) + ", " + toString(type));
        check(*model, options_for(one, pooling, type), input, model->forward_head(tokens, pooling));
      }
  }
}

TEST(GpuEngine, EqualsTheReadableViT) {
  const torch::InferenceMode guard;
  for_every_engine([](auto& model, const EngineOptions& options, const Input& input,
                      const torch::Tensor& expected) {
    Engine engine(model, options, cuda::twin_kernels(), {});
    expect_equal(engine.forward_frames(input.frames, input.levels), expected, options.type);
    expect_equal(engine.forward_images(input.images), expected, options.type);
    expect_equal(engine.forward_frames(input.frames.narrow(0, 1, 1), input.levels),
                 expected.narrow(0, 1, 1), options.type);
    EXPECT_EQ(engine.forward_frames(input.frames.narrow(0, 0, 0), input.levels).size(0), 0);
  });
}

TEST(GpuEngine, ComputesExactlyOnceThatIsAskedFor) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[1];
  VisionTransformer model = one.make();
  const Input input = make_input(3, one.image_size);
  const torch::Tensor expected =
      model->forward_head(model->forward_features(input.images), Pooling::kClsMean);
  EngineOptions options = options_for(one, Pooling::kClsMean, torch::kFloat);
  options.type = options.residual = torch::kBFloat16;
  options.gelu_in_product = true;
  Engine rounded(*model, options, cuda::twin_kernels(), {});
  const torch::Tensor found = rounded.forward_frames(input.frames, input.levels).clone();
  EXPECT_GE(at::cosine_similarity(found, expected).min().item<double>(), 0.999);
  options.residual = torch::kFloat;
  options.gelu_in_product = false;
  Engine exact(*model, options, cuda::twin_kernels(), {});
  const torch::Tensor wanted = exact.forward_frames(input.frames, input.levels);
  EXPECT_FALSE(found.equal(wanted));
  EXPECT_TRUE(rounded.compute_exactly());
  EXPECT_FALSE(rounded.compute_exactly());
  EXPECT_TRUE(rounded.forward_frames(input.frames, input.levels).equal(wanted));
}

// The products' operations of a plain ViT are those that its shapes give, whatever it computes.
TEST(GpuEngine, MeasuresEveryKindOfLayer) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[1];
  const Architecture& shape = one.architecture;
  VisionTransformer model = one.make();
  const std::int64_t batch = 3, grid = one.image_size / shape.patch;
  const Input input = make_input(batch, one.image_size);
  Engine engine(*model, options_for(one, Pooling::kMean, torch::kFloat), cuda::twin_kernels(), {});
  const torch::Tensor expected = engine.forward_frames(input.frames, input.levels).clone();
  std::map<std::string, LayerCost> costs;
  for (const LayerCost& cost : engine.measure_layers(batch)) {
    EXPECT_TRUE(costs.emplace(cost.layer, cost).second) << cost.layer;
    EXPECT_GE(cost.seconds, 0);
    EXPECT_GT(cost.bytes, 0);
  }
  const auto patches = static_cast<double>(batch * grid * grid);
  const double rows = patches + static_cast<double>(batch * shape.prefix_tokens());
  const auto width = static_cast<double>(shape.width),
             hidden = static_cast<double>(shape.mlp_hidden);
  const double blocks = static_cast<double>(shape.depth), tokens = rows / batch;
  const std::map<std::string, double> operations = {
      {"patch_embed", 2 * patches * 592 * width},  // 3 · 14 · 14, filled up
      {"qkv", blocks * 2 * rows * width * 3 * width},
      {"attention", blocks * 4 * rows * tokens * width},
      {"proj", blocks * 2 * rows * width * width},
      {"fc1", blocks * 2 * rows * width * hidden},
      {"activation", 0},
      {"fc2", blocks * 2 * rows * hidden * width},
      {"sums_and_norms", 0},
      {"pooling", 0}};
  ASSERT_EQ(costs.size(), operations.size());
  for (const auto& [layer, count] : operations) {
    ASSERT_TRUE(costs.contains(layer)) << layer;
    EXPECT_DOUBLE_EQ(costs[layer].operations, count) << layer;
  }
  EXPECT_DOUBLE_EQ(costs["activation"].bytes, blocks * 2 * rows * hidden * 4);
  EXPECT_TRUE(engine.forward_frames(input.frames, input.levels).equal(expected));
}

TEST(GpuEngine, ReplaysWhatItRecordedOnNewFrames) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[0];
  VisionTransformer model = one.make();
  GraphLog log;
  Engine engine(*model, options_for(one, Pooling::kCls, torch::kFloat), cuda::twin_kernels(),
                fake_graphs(log));
  const Input input = make_input(8, one.image_size);
  const torch::Tensor expected =
      model->forward_head(model->forward_features(input.images), Pooling::kCls);
  const auto forward = [&](std::int64_t first, std::int64_t count) {
    expect_equal(engine.forward_frames(input.frames.narrow(0, first, count), input.levels),
                 expected.narrow(0, first, count), torch::kFloat);
  };
  // A check comes before the job, as often as it likes, and leaves recording to the job.
  for (int i = 0; i < 6; ++i) forward(i, 1);
  EXPECT_EQ(log.captures, 0);
  engine.expect(3);
  for (int i = 0; i < 5; ++i) forward(i, 3);
  EXPECT_EQ(log.captures, 1);
  EXPECT_EQ(log.replays, 4);
  EXPECT_EQ(engine.graph_bytes(), 100u);
  forward(0, 1);  // the job's end: filled up, and replayed
  EXPECT_EQ(log.replays, 5);
  forward(0, 8);  // a larger batch took other memory
  EXPECT_EQ(log.alive, 0);
}

// Several layers, a projection and what is kept, as LibTorch's operators have them.
TEST(GpuEngine, MakesEveryKindOfFeature) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[1];
  RandomSource source(3);
  VisionTransformer model(Scope(source), one.architecture, one.image_size, /*projected=*/24);
  const Input input = make_input(3, one.image_size);
  const FeatureOptions wanted[] = {{.pooling = Pooling::kCls, .layers = {1, 3}, .cut = 2},
                                   {.pooling = Pooling::kClsMean, .layers = {2, 3}},
                                   {.pooling = Pooling::kCls, .projection = true},
                                   {.pooling = Pooling::kMean, .cut = 1},
                                   {.pooling = Pooling::kNone}};
  for (const FeatureOptions& features : wanted) {
    EngineOptions options = options_for(one, features.pooling, torch::kFloat);
    options.features = features;
    Engine engine(*model, options, cuda::twin_kernels(), {});
    for (int i = 0; i < 2; ++i)
      expect_equal(engine.forward_frames(input.frames, input.levels),
                   model->forward(input.images, features), torch::kFloat);
  }
}

TEST(GpuEngine, RunsOutOfMemoryWhileItRecordsAndGoesOnWithAGraphOfFewer) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[4];
  VisionTransformer model = one.make();
  GraphLog log;
  Engine engine(*model, options_for(one, Pooling::kCls, torch::kFloat), cuda::twin_kernels(),
                fake_graphs(log));
  const Input input = make_input(4, one.image_size);
  engine.expect(4);
  engine.forward_frames(input.frames, input.levels);
  log.full = true;
  EXPECT_THROW(engine.forward_frames(input.frames, input.levels), c10::OutOfMemoryError);
  log.full = false;
  engine.expect(2);
  for (int i = 0; i < 3; ++i) engine.forward_frames(input.frames.narrow(0, 0, 2), input.levels);
  EXPECT_EQ(log.captures, 1);
  EXPECT_EQ(log.replays, 2);
}

// Errors of libraries that found no memory for themselves.
TEST(GpuEngine, TellsWantOfMemoryFromOtherErrors) {
  const torch::InferenceMode guard;
  const SmallModel one = plain_models()[4];
  VisionTransformer model = one.make();
  const Input input = make_input(2, one.image_size);
  static int error = 0;
  cuda::GpuKernels kernels = cuda::twin_kernels();
  kernels.activation = [](const cuda::ActivationArguments& arguments, void* stream) {
    TORCH_CHECK(error != -1, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate");
    TORCH_CHECK(error != -2, "CUDA error: misaligned address");
    return error ? error : cuda::twin_kernels().activation(arguments, stream);
  };
  Engine engine(*model, options_for(one, Pooling::kCls, torch::kFloat), kernels, {});
  const auto forward = [&](int with) {
    error = with;
    return engine.forward_frames(input.frames, input.levels);
  };
  const torch::Tensor expected = forward(0).clone();
  for (const int want_of_memory : {cuda::kOutOfMemory, -1}) {
    EXPECT_THROW(forward(want_of_memory), c10::OutOfMemoryError);
    EXPECT_TRUE(forward(0).equal(expected));
  }
  EXPECT_THROW(forward(700), SystemError);
  try {
    forward(-2);
    FAIL();
  } catch (const c10::OutOfMemoryError&) {
    FAIL();
  } catch (const c10::Error&) {
  }
}

TEST(GpuEngine, LimitsItsBatchTo32BitIndices) {
  const auto expect_most = [](const SmallModel& one, std::int64_t numbers) {
    VisionTransformer model = one.make();
    const Engine engine(*model, options_for(one, Pooling::kCls, torch::kFloat),
                        cuda::twin_kernels(), {});
    EXPECT_EQ(engine.max_images(), INT32_MAX / numbers) << one.name;
  };
  expect_most(plain_models()[0], 224 * 224 * 3);
  // One product gives the MLP's hidden layer, queries, keys and values of all tokens.
  Architecture both = shape(64, 2, 4, 4);
  both.block = BlockKind::kParallelScaling;
  expect_most({"parallel_scaling", both, 16}, 17 * (256 + 3 * 64));
}

TEST(GpuEngine, SaysWhatItCannotCompute) {
  Architecture turned = shape(64, 1, 14, 16);
  turned.differential = true;
  turn(turned, Rotary::kAxial, true);
  const SmallModel one{"turned", turned, 28};
  VisionTransformer model = one.make();
  EXPECT_THROW(
      Engine(*model, options_for(one, Pooling::kCls, torch::kFloat), cuda::twin_kernels(), {}),
      ConfigError);
}

class GpuEngineOnGpu : public testing::GpuTest {};

TEST_F(GpuEngineOnGpu, EqualsTheReadableViT) {
  ASSERT_NE(cuda::kernels(), nullptr);
  const torch::InferenceMode guard;
  const c10::impl::VirtualGuardImpl streams(device_.type());
  const c10::StreamGuard stream(streams.getStreamFromGlobalPool(device_));
  for_every_engine(
      [&](auto& model, EngineOptions options, const Input& input, const torch::Tensor& expected) {
        options.device = device_;
        Engine engine(model, options, *cuda::kernels(), cuda_graphs());
        const torch::Tensor frames = input.frames.to(device_), levels = input.levels.to(device_);
        expect_equal(engine.forward_frames(frames, levels).cpu(), expected, options.type);
        engine.expect(4);
        for (int i = 0; i < 4; ++i)  // the last ones from a graph
          expect_equal(engine.forward_frames(frames, levels).cpu(), expected, options.type);
        EXPECT_GT(engine.graph_bytes(), 0u);
      });
}

}  // namespace
}  // namespace coldframe::vit::gpu
