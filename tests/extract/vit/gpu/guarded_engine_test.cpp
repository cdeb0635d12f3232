#include "extract/vit/gpu/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "common/cli/log.h"
#include "tests/common/torch/fake_graph.h"
#include "tests/extract/cuda/twin.h"
#include "tests/extract/vit/engine_models.h"
#include "tests/extract/vit/gpu/fake_attention.h"

namespace coldframe::vit::gpu {
namespace {

using ::testing::HasSubstr;

enum class Fault { kNone, kThrows, kStrays, kNoMemory };

class GuardedEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_quiet(true);
    at::set_num_threads(1);
    torch::manual_seed(3);
    input_.frames = torch::randint(256, {3, 16, 16, 3}, torch::kUInt8);
    input_.levels = (torch::arange(256) / 127.5 - 1).expand({3, 256}).contiguous();
    input_.images = (input_.frames.permute({0, 3, 1, 2}) / 127.5 - 1).contiguous();
    const torch::InferenceMode guard;
    exact_ = model_->forward_head(model_->forward_features(input_.images), Pooling::kCls);
    fault = Fault::kNone;
  }

  GuardedEngine make() {
    cuda::GpuKernels kernels = cuda::twin_kernels();
    kernels.activation = [](const cuda::ActivationArguments& arguments, void* stream) {
      ++activations;
      TORCH_CHECK(fault != Fault::kThrows, "CUDA error: misaligned address\nmore of it");
      if (fault == Fault::kNoMemory) return cuda::kOutOfMemory;
      if (fault == Fault::kStrays) return 0;  // the MLP goes without
      return cuda::twin_kernels().activation(arguments, stream);
    };
    kernels_ = kernels;
    std::shared_future<torch::Tensor> exact;
    if (exact_.defined())
      exact = std::async(std::launch::deferred, [this] {
                before_exact = activations;
                return exact_;
              }).share();
    return {std::make_unique<Engine>(*model_, options_, kernels_, fake_graphs(log_)), input_,
            exact};
  }

  torch::Tensor forward(GuardedEngine& engine) {
    return engine.forward_frames(input_.frames, input_.levels);
  }

  inline static Fault fault = Fault::kNone;
  inline static int activations = 0;  // that were computed
  int before_exact = -1;              // when somebody asked for the exact features
  const SmallModel one_{"one", small_architecture(64, 2, 4, 4), 16};
  VisionTransformer model_ = one_.make();
  cuda::GpuKernels kernels_;
  EngineOptions options_{.type = torch::kFloat, .image_size = 16};
  GraphLog log_;
  CheckInput input_;
  torch::Tensor exact_;
};

TEST_F(GuardedEngineTest, RecordsTheJobsPassAfterAnyNumberOfChecks) {
  GuardedEngine engine = make();
  for (int i = 0; i < 6; ++i) engine.check();
  EXPECT_EQ(engine.failure(), "");
  EXPECT_EQ(log_.captures, 0);
  engine.expect(3);
  for (int i = 0; i < 3; ++i)
    EXPECT_LE((forward(engine) - exact_).abs().max().item<double>(), 5e-5);
  EXPECT_EQ(log_.captures, 1);
  EXPECT_EQ(log_.replays, 4);  // one of them in the check
}

// They are computed meanwhile.
TEST_F(GuardedEngineTest, ComputesBeforeItWaitsForTheExactFeatures) {
  activations = 0;
  GuardedEngine engine = make();
  EXPECT_EQ(before_exact, -1);
  engine.check();
  EXPECT_EQ(before_exact, one_.architecture.depth);
}

TEST_F(GuardedEngineTest, IsComparedAgainWithTheAttentionOfASizeThatStays) {
  FakeAttention::use(options_, FakeAttention::Does::kStrays);
  GuardedEngine engine = make();
  engine.expect(3, /*stays=*/false);
  EXPECT_EQ(FakeAttention::calls, 0);
  engine.expect(3, /*stays=*/true);
  EXPECT_GT(FakeAttention::calls, 0);
  EXPECT_EQ(engine.failure(), "");  // it goes on without
  FakeAttention::calls = 0;
  EXPECT_LE((forward(engine) - exact_).abs().max().item<double>(), 5e-5);
  engine.expect(3, /*stays=*/true);
  EXPECT_EQ(FakeAttention::calls, 0);
}

TEST_F(GuardedEngineTest, IsComparedFromItsRecordingToo) {
  GuardedEngine engine = make();
  log_.before_replay = [] { fault = Fault::kStrays; };
  engine.expect(3);
  EXPECT_TRUE(engine.strays());
}

// The check has three frames.
TEST_F(GuardedEngineTest, IsComparedFromTheRecordingOfASmallerBatch) {
  GuardedEngine engine = make();
  log_.before_replay = [] { fault = Fault::kStrays; };
  engine.expect(2);
  EXPECT_EQ(log_.captures, 1);
  EXPECT_TRUE(engine.strays());
}

TEST_F(GuardedEngineTest, ThatThrowsGivesWayWithItsReason) {
  GuardedEngine engine = make();
  engine.check();
  fault = Fault::kThrows;
  EXPECT_FALSE(forward(engine).defined());
  EXPECT_EQ(engine.failure(), "the GPU engine failed: CUDA error: misaligned address");
  EXPECT_FALSE(engine.strays());
  fault = Fault::kNone;
  EXPECT_FALSE(forward(engine).defined());
}

TEST_F(GuardedEngineTest, IsComparedInPassesOfTheJobsSize) {
  GuardedEngine engine = make();
  engine.check();
  fault = Fault::kStrays;
  engine.expect(5);
  EXPECT_TRUE(engine.strays());
  EXPECT_THAT(engine.failure(), HasSubstr("have a cosine of"));
  EXPECT_FALSE(forward(engine).defined());
}

// Sums beyond 65 504 are no half-precision numbers.
TEST_F(GuardedEngineTest, ComputesExactlyBeforeItGivesWay) {
  const torch::InferenceMode guard;
  model_->pos_embed.mul_(1e7);
  exact_ = model_->forward_head(model_->forward_features(input_.images), Pooling::kCls);
  options_.type = options_.residual = torch::kHalf;
  GuardedEngine engine = make();
  engine.check();
  EXPECT_EQ(engine.failure(), "");
  EXPECT_GE(at::cosine_similarity(forward(engine), exact_).min().item<double>(), 0.999);
}

// What replaces it is compared launched and replayed, too.
TEST_F(GuardedEngineTest, DoesWithoutAnAttentionThatStrays) {
  FakeAttention::use(options_, FakeAttention::Does::kStrays);
  GuardedEngine engine = make();
  engine.expect(3);
  EXPECT_EQ(engine.failure(), "");
  EXPECT_EQ(log_.replays, 1);
  FakeAttention::calls = 0;
  EXPECT_LE((forward(engine) - exact_).abs().max().item<double>(), 5e-5);
  EXPECT_EQ(FakeAttention::calls, 0);
}

// Only its recording strays: what replaces it is recorded anew and compared in both ways again.
TEST_F(GuardedEngineTest, DoesWithoutAnAttentionThatStraysReplayed) {
  FakeAttention::use(options_, FakeAttention::Does::kRight);
  log_.before_replay = [] { FakeAttention::does = FakeAttention::Does::kStrays; };
  GuardedEngine engine = make();
  engine.expect(3);
  EXPECT_EQ(engine.failure(), "");
  EXPECT_EQ(log_.captures, 2);
  EXPECT_EQ(log_.replays, 2);
}

TEST_F(GuardedEngineTest, IsComparedFromTheRecordingOfWhatReplacesAnAttention) {
  FakeAttention::use(options_, FakeAttention::Does::kStrays);
  log_.before_replay = [] { fault = Fault::kStrays; };
  GuardedEngine engine = make();
  engine.expect(3);
  EXPECT_TRUE(engine.strays());
}

TEST_F(GuardedEngineTest, LeavesAWantOfMemoryToTheCaller) {
  GuardedEngine engine = make();
  fault = Fault::kNoMemory;
  EXPECT_THROW(engine.expect(5), c10::OutOfMemoryError);
  EXPECT_THROW(forward(engine), c10::OutOfMemoryError);
  fault = Fault::kNone;
  EXPECT_TRUE(forward(engine).defined());
}

TEST_F(GuardedEngineTest, WithoutACheckIsTrusted) {
  fault = Fault::kStrays;
  exact_ = torch::Tensor();
  GuardedEngine engine = make();
  engine.check();
  engine.expect(3);
  EXPECT_TRUE(forward(engine).defined());
}

}  // namespace
}  // namespace coldframe::vit::gpu
