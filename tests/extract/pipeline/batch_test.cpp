#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "extract/pipeline/batch.h"
#include "tests/extract/pipeline/transfer/fake_streams.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

struct BatchRun {
  std::vector<std::int64_t> batches;
  std::vector<float> features;
};

BatchRun run(std::size_t frames, std::int64_t capacity, std::int64_t fits) {
  const ExtractOptions options = small_options();
  MeanBackbone backbone(fits);
  BatchRun result;
  BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {capacity, 0},
                      [&](const FeatureIndex& place, std::span<const float> feature) {
                        EXPECT_EQ(place.task, result.features.size());
                        EXPECT_EQ(place.window, place.task + 100);
                        result.features.push_back(feature[0]);
                      });
  for (std::size_t i = 0; i < frames; ++i)
    batch.add({{i, i + 100}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(i))});
  batch.compute();
  result.batches = backbone.batches;
  return result;
}

TEST(BackboneBatch, FillsAcrossExamsAndDoesNotPadTheLastOne) {
  const BatchRun result = run(10, 4, 100);
  EXPECT_EQ(result.batches, (std::vector<std::int64_t>{4, 4, 2}));
  ASSERT_EQ(result.features.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(result.features[i], static_cast<float>(i) / 255, 1e-6);
}

TEST(BackboneBatch, HalvesWhenMemoryRunsOutAndRemembers) {
  const BatchRun result = run(16, 8, 3);
  EXPECT_EQ(result.batches, (std::vector<std::int64_t>(8, 2)));
  ASSERT_EQ(result.features.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(result.features[i], static_cast<float>(i) / 255, 1e-6);
}

// Frame i shows the grey level grey[i]; what each place received.
std::map<std::size_t, float> run_grey(const std::vector<int>& grey, std::int64_t capacity,
                                      BatchCounts& counts, MeanBackbone& backbone) {
  std::map<std::size_t, float> received;
  const ExtractOptions options = small_options();
  BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {capacity, 0},
                      [&](const FeatureIndex& place, std::span<const float> feature) {
                        EXPECT_TRUE(received.emplace(place.window, feature[0]).second);
                      });
  for (std::size_t i = 0; i < grey.size(); ++i)
    batch.add({{0, i}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(grey[i]))});
  batch.compute();
  counts = batch.counts();
  return received;
}

TEST(BackboneBatch, ComputesFramesOfTheSameContentOnce) {
  const std::vector<int> grey{1, 1, 2, 3, 1, 4, 5, 2, 9, 9};
  BatchCounts counts;
  MeanBackbone backbone;
  const auto received = run_grey(grey, 3, counts, backbone);
  EXPECT_EQ(backbone.batches, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(counts.frames, 10);
  EXPECT_EQ(counts.repeated, 4);
  ASSERT_EQ(received.size(), grey.size());
  for (std::size_t i = 0; i < grey.size(); ++i)
    EXPECT_NEAR(received.at(i), static_cast<float>(grey[i]) / 255, 1e-6) << i;
}

TEST(BackboneBatch, GrowsByItselfAndLosesNothing) {
  std::vector<int> grey;
  for (int i = 0; i < 250; ++i) grey.push_back(i);
  BatchCounts counts;
  MeanBackbone backbone(7);  // more than 7 frames do not fit
  const auto received = run_grey(grey, 0, counts, backbone);
  EXPECT_LE(*std::max_element(backbone.batches.begin(), backbone.batches.end()), 7);
  ASSERT_EQ(received.size(), grey.size());
  for (std::size_t i = 0; i < grey.size(); ++i)
    EXPECT_NEAR(received.at(i), static_cast<float>(grey[i]) / 255, 1e-6) << i;
}

TEST(BackboneBatch, AsksNoMoreOfABackboneThanItTakes) {
  const ExtractOptions options = small_options();
  for (const std::int64_t asked : {0, 9}) {
    MeanBackbone backbone;
    backbone.most = 3;
    BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {asked, 0},
                        [](const FeatureIndex&, std::span<const float>) {});
    for (std::size_t i = 0; i < 60; ++i)
      batch.add({{0, i}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(i))});
    batch.compute();
    EXPECT_EQ(*std::max_element(backbone.batches.begin(), backbone.batches.end()), 3) << asked;
  }
}

using Expected = std::vector<std::pair<std::int64_t, bool>>;

TEST(BackboneBatch, BeginsWithWhatTheDeviceCertainlyHolds) {
  for (const auto& [bytes, first] :
       {std::pair{std::uint64_t{1}, std::int64_t{32}}, {std::uint64_t{1} << 50, 4}}) {
    const ExtractOptions options = small_options();
    MeanBackbone backbone;
    backbone.bytes = bytes;
    BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {.most = 32},
                        [](const FeatureIndex&, std::span<const float>) {});
    for (std::size_t i = 0; i < 40; ++i)
      batch.add({{0, i}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(i))});
    batch.compute();
    EXPECT_EQ(backbone.batches.front(), first);
    EXPECT_EQ(backbone.expected.front(), std::pair(first, first == 32));
  }
}

// Measuring is for many passes of one size.
TEST(BackboneBatch, PreparesAJobOfLessThanABatchForItsOnlyPass) {
  BatchCounts counts;
  MeanBackbone few, more;
  run_grey({1, 2, 3}, 4, counts, few);
  EXPECT_EQ(few.expected, (Expected{{3, false}}));
  run_grey({1, 2, 3, 4, 5}, 4, counts, more);
  EXPECT_EQ(more.expected, (Expected{{4, true}, {4, true}}));
}

// What a larger batch left on the device is given back before a smaller one is tried.
TEST(BackboneBatch, ReleasesMemoryBeforeItTriesAgain) {
  const ExtractOptions options = small_options();
  MeanBackbone backbone(3);
  BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {8, 0},
                      [](const FeatureIndex&, std::span<const float>) {});
  for (std::size_t i = 0; i < 8; ++i)
    batch.add({{0, i}, std::vector<std::uint8_t>(16 * 16 * 3, static_cast<std::uint8_t>(i))});
  EXPECT_EQ(backbone.releases, 2);  // at 8 and at 4
}

TEST(BackboneBatch, SaysSoWhenNotEvenOneFrameFits) {
  EXPECT_THROW(run(1, 1, 0), SystemError);
}

class OverlappingBatch : public ::testing::TestWithParam<FakeStreams::Eager> {};

// One batch is computed while the next is collected: frames of the same content and a size that
// shrinks among them.
TEST_P(OverlappingBatch, LosesNothing) {
  set_quiet(true);
  const ExtractOptions options = small_options();
  MeanBackbone backbone;
  auto streams = std::make_unique<FakeStreams>(GetParam());
  FakeStreams& lanes = *streams;
  std::map<std::size_t, float> received;
  BackboneBatch batch(
      backbone, torch::kCPU, options.preprocessing, {4, 0},
      [&](const FeatureIndex& place, std::span<const float> feature) {
        EXPECT_TRUE(received.emplace(place.window, feature[0]).second);
      },
      std::move(streams));
  const auto grey = [](std::size_t i) { return static_cast<std::uint8_t>(i % 5 == 4 ? i - 3 : i); };
  lanes.device_frames = GetParam() == FakeStreams::Eager::kCopy ? 3 : 4;
  for (std::size_t i = 0; i < 150; ++i) {
    if (i == 70) lanes.out_of_memory = 1;
    batch.add({{0, i}, std::vector<std::uint8_t>(16 * 16 * 3, grey(i))});
  }
  batch.compute();
  ASSERT_EQ(received.size(), 150u);
  for (std::size_t i = 0; i < 150; ++i)
    EXPECT_NEAR(received.at(i), static_cast<float>(grey(i)) / 255, 1e-6) << i;
  EXPECT_EQ(batch.counts().frames, 150);
  EXPECT_EQ(batch.counts().repeated, 30);
  EXPECT_GT(batch.counts().compute_s, 0);
  const int under_way = GetParam() == FakeStreams::Eager::kCompute ? 1 : 2;  // batches
  EXPECT_GE(lanes.max_pending, under_way);
}

// The size of a batch is found by the passes of the job itself, one under way beside another.
TEST_P(OverlappingBatch, GrowsWithoutWaiting) {
  const ExtractOptions options = small_options();
  MeanBackbone backbone;
  std::size_t frames = 0, received = 0;
  BackboneBatch batch(
      backbone, torch::kCPU, options.preprocessing, {0, 0, 16},
      [&](const FeatureIndex&, std::span<const float>) { ++received; },
      std::make_unique<FakeStreams>(GetParam()));
  bool waited = false;
  for (; !batch.settled() && frames < 250; ++frames) {
    const std::vector<std::uint8_t> pixels(16 * 16 * 3, static_cast<std::uint8_t>(frames));
    batch.add({{0, frames}, pixels});
    waited = waited || received > frames;
  }
  EXPECT_FALSE(waited);
  EXPECT_TRUE(batch.settled());
  EXPECT_EQ(batch.size(), 16);
  batch.compute();
  EXPECT_EQ(received, frames);
  EXPECT_EQ(*std::max_element(backbone.batches.begin(), backbone.batches.end()), 16);
}

// So many bytes that several threads copy them.
TEST(BackboneBatch, GivesMemoryOfEveryFrameBackAndCopiesItWhole) {
  ExtractOptions options = small_options();
  options.preprocessing.image_size = 512;
  MeanBackbone backbone;
  std::map<std::size_t, float> received;
  BackboneBatch batch(backbone, torch::kCPU, options.preprocessing, {24, 0},
                      [&](const FeatureIndex& place, std::span<const float> row) {
                        received[place.window] = row[0];
                      });
  for (std::size_t i = 0; i < 25; ++i)  // the last one as the first
    batch.add(
        {{0, i}, std::vector<std::uint8_t>(512 * 512 * 3, static_cast<std::uint8_t>(i % 24))});
  batch.compute();
  EXPECT_EQ(batch.take_used().size(), 25u);
  EXPECT_TRUE(batch.take_used().empty());
  for (std::size_t i = 0; i < 25; ++i)
    EXPECT_NEAR(received.at(i), static_cast<float>(i % 24) / 255, 1e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(All, OverlappingBatch,
                         ::testing::Values(FakeStreams::Eager::kNone, FakeStreams::Eager::kCopy,
                                           FakeStreams::Eager::kCompute));

}  // namespace
}  // namespace coldframe::extract
