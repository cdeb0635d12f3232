// The choice of an attention for the batch that is expected.
#include <gtest/gtest.h>

#include "common/cli/log.h"
#include "extract/vit/gpu/engine.h"
#include "tests/extract/cuda/twin.h"
#include "tests/extract/vit/engine_models.h"
#include "tests/extract/vit/gpu/fake_attention.h"

namespace coldframe::vit::gpu {
namespace {

using Does = FakeAttention::Does;

class GpuAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override { set_quiet(true); }

  void use(Does does, int seconds) {
    FakeAttention::use(options_, does, seconds);
    engine_.emplace(*model_, options_, cuda::twin_kernels(), MakeGraph());
  }
  // Of three frames, with the features that LibTorch's own choice gives.
  int calls_of_a_pass() {
    EngineOptions plain = options_;
    plain.attention = nullptr;
    Engine own(*model_, plain, cuda::twin_kernels(), {});
    FakeAttention::calls = 0;
    EXPECT_TRUE(
        engine_->forward_frames(frames_, levels_).equal(own.forward_frames(frames_, levels_)));
    return FakeAttention::calls;
  }

  const torch::InferenceMode guard_;
  const SmallModel one_{"one", small_architecture(64, 2, 4, 4), 16};
  VisionTransformer model_ = one_.make();
  const int blocks_ = static_cast<int>(one_.architecture.depth);
  EngineOptions options_{
      .type = torch::kFloat, .features = {.pooling = Pooling::kMean}, .image_size = 16};
  std::optional<Engine> engine_;
  const torch::Tensor frames_ = torch::randint(256, {3, 16, 16, 3}, torch::kUInt8);
  const torch::Tensor levels_ = (torch::arange(256) / 127.5 - 1).expand({3, 256}).contiguous();
};

TEST_F(GpuAttentionTest, IsTheQuickerOneWhileTheBatchIsExpected) {
  struct Case {
    Does does;
    int seconds;
    bool taken;
  };
  for (const Case& at :
       {Case{Does::kRight, 1, true}, {Does::kRight, 3, false}, {Does::kThrows, 1, false}}) {
    use(at.does, at.seconds);
    EXPECT_EQ(calls_of_a_pass(), 0);
    engine_->expect(3);
    EXPECT_GT(FakeAttention::calls, 0);
    EXPECT_EQ(calls_of_a_pass(), at.taken ? blocks_ : 0);
    engine_->expect(0);
    EXPECT_EQ(calls_of_a_pass(), 0);
  }
}

TEST_F(GpuAttentionTest, IsMeasuredOnceForASizeThatStays) {
  use(Does::kRight, 1);
  EXPECT_TRUE(engine_->expect(3, /*stays=*/false));
  EXPECT_EQ(FakeAttention::calls, 0);
  EXPECT_EQ(calls_of_a_pass(), 0);
  EXPECT_TRUE(engine_->expect(3, /*stays=*/true));
  EXPECT_EQ(calls_of_a_pass(), blocks_);
  EXPECT_FALSE(engine_->expect(3, /*stays=*/true));
  EXPECT_FALSE(engine_->expect(3, /*stays=*/false));
  EXPECT_EQ(calls_of_a_pass(), blocks_);
}

TEST_F(GpuAttentionTest, IsNotThatOfABatchThatWasTooLarge) {
  use(Does::kFindsNoMemory, 1);
  EXPECT_THROW(engine_->expect(3), c10::OutOfMemoryError);
  EXPECT_EQ(engine_->expected(), 0);
  EXPECT_EQ(calls_of_a_pass(), 0);
}

}  // namespace
}  // namespace coldframe::vit::gpu
