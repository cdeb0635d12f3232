#include "extract/vit/gpu/graphs.h"

#include <gtest/gtest.h>

#include "common/cli/log.h"
#include "tests/extract/vit/gpu/fake_graph.h"

namespace coldframe::vit::gpu {
namespace {

class GraphsTest : public ::testing::Test {
 protected:
  void SetUp() override { set_quiet(true); }

  // Runs a size `times` times; each must be computed once.
  void run(Graphs& graphs, std::int64_t batch, int times) {
    for (int i = 0; i < times; ++i) {
      computed_ = 0;
      graphs.run(batch, [&] { ++computed_; });
      EXPECT_EQ(computed_, 1) << batch;
    }
  }

  GraphLog log_;
  int computed_ = 0;
};

TEST_F(GraphsTest, RecordASizeThatComesOften) {
  Graphs graphs(fake_graphs(log_));
  run(graphs, 8, Graphs::kWarmUps);
  EXPECT_EQ(log_.captures, 0);
  EXPECT_EQ(graphs.bytes(), 0u);
  run(graphs, 8, 5);
  EXPECT_EQ(log_.captures, 1);
  EXPECT_EQ(log_.replays, 5);
  EXPECT_EQ(graphs.bytes(), 100u);
  run(graphs, 3, 1);  // the end of a job
  EXPECT_EQ(log_.captures, 1);
}

TEST_F(GraphsTest, AreBoundedAndForgetTheLeastRecentlyUsed) {
  Graphs graphs(fake_graphs(log_));
  for (int batch = 1; batch <= 6; ++batch) {
    run(graphs, batch, Graphs::kWarmUps + 1);
    if (batch > 1) run(graphs, 1, 1);  // stays in use
    EXPECT_LE(log_.alive, static_cast<int>(Graphs::kMost));
  }
  EXPECT_EQ(log_.captures, 6);
  const int replays = log_.replays;
  run(graphs, 1, 1);
  run(graphs, 6, 1);
  EXPECT_EQ(log_.replays, replays + 2);
  run(graphs, 2, 1);  // forgotten
  EXPECT_EQ(log_.replays, replays + 2);
  EXPECT_EQ(graphs.bytes(), 100 * Graphs::kMost);
}

TEST_F(GraphsTest, AreLeftOutOnceRecordingFails) {
  Graphs graphs(fake_graphs(log_));
  run(graphs, 8, Graphs::kWarmUps + 1);
  log_.broken = true;
  run(graphs, 4, Graphs::kWarmUps + 3);
  log_.broken = false;
  run(graphs, 4, 3);
  EXPECT_EQ(log_.captures, 1);
  const int replays = log_.replays;
  run(graphs, 8, 2);  // what was recorded before goes on
  EXPECT_EQ(log_.replays, replays + 2);
}

TEST_F(GraphsTest, StartAnewWhenMemoryHasMoved) {
  Graphs graphs(fake_graphs(log_));
  run(graphs, 8, Graphs::kWarmUps + 1);
  graphs.clear();
  EXPECT_EQ(log_.alive, 0);
  run(graphs, 8, Graphs::kWarmUps);
  EXPECT_EQ(log_.captures, 1);
}

TEST_F(GraphsTest, AreNotNeeded) {
  Graphs graphs({});
  run(graphs, 8, Graphs::kWarmUps + 3);
  EXPECT_EQ(graphs.bytes(), 0u);
}

}  // namespace
}  // namespace coldframe::vit::gpu
