#include "common/torch/graphs.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "common/cli/log.h"
#include "common/torch/tensor.h"
#include "tests/common/torch/fake_graph.h"
#include "tests/support/gpu_test.h"

namespace coldframe {
namespace {

class RecordingTest : public ::testing::Test {
 protected:
  void SetUp() override { set_quiet(true); }

  // Runs the pass `times` times; each must be computed once.
  void run(Recording& recording, int times) {
    for (int i = 0; i < times; ++i) {
      computed_ = 0;
      recording.run([&] { ++computed_; });
      EXPECT_EQ(computed_, 1);
    }
  }

  GraphLog log_;
  int computed_ = 0;
};

TEST_F(RecordingTest, BeginsWithTheSecondPass) {
  Recording recording(fake_graphs(log_));
  run(recording, 1);
  EXPECT_EQ(log_.captures, 0);
  EXPECT_EQ(recording.bytes(), 0u);
  run(recording, 5);
  EXPECT_EQ(log_.captures, 1);
  EXPECT_EQ(log_.replays, 5);
  EXPECT_EQ(recording.bytes(), 100u);
}

TEST_F(RecordingTest, IsLeftOutOnceItFails) {
  Recording recording(fake_graphs(log_));
  log_.broken = true;
  run(recording, 3);
  log_.broken = false;
  run(recording, 3);
  recording.clear();
  run(recording, 3);
  EXPECT_EQ(log_.captures, 0);
  EXPECT_EQ(log_.alive, 0);
}

TEST_F(RecordingTest, TriesAgainAfterAWantOfMemory) {
  Recording recording(fake_graphs(log_));
  run(recording, 1);
  log_.full = true;
  EXPECT_THROW(run(recording, 1), c10::Error);
  log_.full = false;
  run(recording, 2);
  EXPECT_EQ(log_.captures, 1);
}

TEST_F(RecordingTest, StartsAnewWhenMemoryHasMoved) {
  Recording recording(fake_graphs(log_));
  run(recording, 2);
  recording.clear();
  EXPECT_EQ(log_.alive, 0);
  run(recording, 1);
  EXPECT_EQ(log_.captures, 1);
  run(recording, 1);
  EXPECT_EQ(log_.captures, 2);
}

TEST_F(RecordingTest, IsNotNeeded) {
  Recording recording({});
  run(recording, 4);
  EXPECT_EQ(recording.bytes(), 0u);
}

class GpuGraphsOnGpu : public testing::GpuTest {};

// One that may not begin, on LibTorch's default stream, and some whose work waits for the device.
TEST_F(GpuGraphsOnGpu, RecordsAfterCapturesThatFailed) {
  const torch::InferenceMode guard;
  const torch::Tensor x = torch::ones({1000}, device_);
  const MakeGraph make = cuda_graphs();
  ASSERT_TRUE(make);
  const auto waits = [&] { x.add(1).sum().item<float>(); };
  EXPECT_ANY_THROW(make()->capture(waits));
  const c10::impl::VirtualGuardImpl streams(device_.type());
  const c10::StreamGuard stream(streams.getStreamFromGlobalPool(device_));
  for (int i = 0; i < 2; ++i) EXPECT_ANY_THROW(make()->capture(waits));
  const auto graph = make();
  graph->capture([&] { x.add_(1); });
  EXPECT_EQ(x.sum().item<float>(), 1000);  // nothing is computed yet
  graph->replay();
  EXPECT_EQ(x.sum().item<float>(), 2000);
}

}  // namespace
}  // namespace coldframe
