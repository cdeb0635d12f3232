#include "extract/pipeline/batch.h"

#include <gtest/gtest.h>

#include <functional>

namespace coldframe::extract {
namespace {

constexpr std::uint64_t kWeights = 100 << 20, kPerFrame = 10 << 20;

// Lets the controller work on a machine with the given rate (frames/s) and memory.
void work(BatchController& controller, const std::function<double(std::int64_t)>& rate,
          std::uint64_t memory = ~0ull, int batches = 100) {
  for (int i = 0; i < batches; ++i) {
    std::int64_t size = controller.size();
    while (kWeights + static_cast<std::uint64_t>(size) * kPerFrame > memory) {
      controller.out_of_memory(size);
      size = controller.size();
    }
    controller.succeeded(size, static_cast<double>(size) / rate(size),
                         kWeights + static_cast<std::uint64_t>(size) * kPerFrame);
  }
}

double knee_at_16(std::int64_t size) {
  return size <= 16 ? 10.0 * static_cast<double>(size) : 162.0;
}

TEST(BatchController, KeepsTheSizeThatWasAskedFor) {
  BatchController controller({48, 0});
  work(controller, knee_at_16);
  EXPECT_EQ(controller.size(), 48);
  EXPECT_EQ(controller.learnt(), "48 frames per forward pass");
}

TEST(BatchController, AutoStopsWhereLargerBatchesNoLongerPay) {
  BatchController controller({0, 0});
  EXPECT_EQ(controller.size(), BatchController::kFirst);
  work(controller, knee_at_16);
  EXPECT_TRUE(controller.settled());
  EXPECT_EQ(controller.size(), 16);
  EXPECT_EQ(controller.learnt(), "16 frames per forward pass (auto)");
}

TEST(BatchController, AutoEndsAtTheMost) {
  BatchController controller({0, 0});
  work(controller, [](std::int64_t size) { return static_cast<double>(size); });
  EXPECT_EQ(controller.size(), BatchLimits().most);
}

TEST(BatchController, AutoBeginsWithWhatIsKnownToFit) {
  EXPECT_EQ(BatchController({.first = 1}).size(), BatchController::kFirst);
  EXPECT_EQ(BatchController({.begins_with_one = true}).size(), 1);
  BatchController controller({.first = 64});
  EXPECT_EQ(controller.size(), 64);
  EXPECT_FALSE(controller.settled());
  BatchController largest({.most = 100, .first = 128});
  EXPECT_EQ(largest.size(), 100);
  EXPECT_TRUE(largest.settled());
  EXPECT_EQ(largest.learnt(), "100 frames per forward pass (auto)");
  largest.out_of_memory(100);
  EXPECT_EQ(largest.size(), 50);
}

TEST(BatchController, AutoStaysWithinTheBudgetWithoutTryingWhatIsBeyond) {
  BatchController controller({0, kWeights + 40 * kPerFrame});
  work(controller, [&](std::int64_t size) {
    EXPECT_LE(size, 32);
    return static_cast<double>(size);
  });
  EXPECT_EQ(controller.size(), 32);
}

TEST(BatchController, HalvesUntilItFitsAndRemembers) {
  BatchController controller({256, 0});
  work(controller, knee_at_16, kWeights + 40 * kPerFrame);
  EXPECT_EQ(controller.size(), 32);
  EXPECT_EQ(controller.learnt(), "32 frames per forward pass (as many as fit)");
}

TEST(BatchController, AutoThatRunsOutOfMemoryGrowsNoMore) {
  BatchController controller({0, 0});
  work(
      controller, [](std::int64_t size) { return static_cast<double>(size); },
      kWeights + 100 * kPerFrame);
  EXPECT_EQ(controller.size(), 64);
}

TEST(BatchController, OneFrameIsTheLeast) {
  BatchController controller({3, 0});
  controller.out_of_memory(3);
  EXPECT_EQ(controller.size(), 1);
}

TEST(BatchController, ALastSmallerBatchTellsNothing) {
  BatchController controller({0, 0});
  for (int i = 0; i < 50; ++i) controller.succeeded(1, 1e-9, kWeights);
  EXPECT_EQ(controller.size(), BatchController::kFirst);
  EXPECT_FALSE(controller.settled());
}

}  // namespace
}  // namespace coldframe::extract
