#include <gtest/gtest.h>

#include "common/error.h"
#include "extract/batch.h"
#include "tests/extract/support.h"

namespace coldframe {
namespace {

struct BatchRun {
  std::vector<std::int64_t> batches;
  std::vector<float> features;
};

BatchRun run(std::size_t frames, std::int64_t capacity, std::int64_t fits) {
  const ExtractOptions options = small_options();
  MeanBackbone backbone(fits);
  BatchRun result;
  Batch batch(backbone, DeviceInput(options.preprocessing, torch::kCPU), 16, capacity,
              [&](const FramePlace& place, std::span<const float> feature) {
                EXPECT_EQ(place.task, result.features.size());
                EXPECT_EQ(place.slot, place.task + 100);
                result.features.push_back(feature[0]);
              });
  for (std::size_t i = 0; i < frames; ++i)
    batch.add({{i, i + 100}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(i))});
  batch.compute();
  result.batches = backbone.batches;
  return result;
}

TEST(Batch, FillsAcrossExamsAndDoesNotPadTheLastOne) {
  const BatchRun result = run(10, 4, 100);
  EXPECT_EQ(result.batches, (std::vector<std::int64_t>{4, 4, 2}));
  ASSERT_EQ(result.features.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(result.features[i], static_cast<float>(i) / 255, 1e-6);
}

TEST(Batch, HalvesWhenMemoryRunsOutAndRemembers) {
  const BatchRun result = run(16, 8, 3);
  EXPECT_EQ(result.batches, (std::vector<std::int64_t>(8, 2)));
  ASSERT_EQ(result.features.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(result.features[i], static_cast<float>(i) / 255, 1e-6);
}

TEST(Batch, SaysSoWhenNotEvenOneFrameFits) {
  EXPECT_THROW(run(1, 1, 0), SystemError);
}

}  // namespace
}  // namespace coldframe
