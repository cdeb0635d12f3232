#include "extract/pipeline/window_frames.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cache/store/reader.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/input/exam_list.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "extract/pipeline/resume.h"
#include "tests/extract/pipeline/transfer/fake_streams.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

using frames::FrameWindow;

preprocess::Input input(std::uint8_t level, std::size_t tile = 0, std::size_t tiles = 1) {
  return {0, tile, tiles, std::vector<std::uint8_t>(2, level)};
}

std::vector<std::uint8_t> no_memory() {
  return {};
}

// Two overlapping windows, one with a zero at its end and one that lacks a frame.
TEST(WindowFrames, GivesEachWindowOnceItsLastFrameIsThere) {
  const std::vector<FrameWindow> windows{
      {{0, 2, 4}, 0}, {{2, 4, 6}, 0}, {{4, 6, FrameWindow::kBlank}, 1}, {{6, 7, 8}, 0}};
  WindowFrames waiting(windows);
  std::map<std::size_t, std::vector<std::uint8_t>> given;
  const auto take = [&](std::size_t window, preprocess::Input&& whole) {
    EXPECT_TRUE(given.emplace(window, std::move(whole.pixels)).second);
    return true;
  };
  std::vector<std::size_t> count;
  for (const std::int64_t slot : {0, 2, 4, 6, 8}) {
    waiting.add(slot, input(static_cast<std::uint8_t>(slot)), take, no_memory);
    count.push_back(given.size());
  }
  EXPECT_EQ(count, (std::vector<std::size_t>{0, 0, 1, 3, 3}));
  using Pixels = std::vector<std::uint8_t>;
  EXPECT_EQ(given[0], (Pixels{0, 0, 2, 2, 4, 4}));
  EXPECT_EQ(given[1], (Pixels{2, 2, 4, 4, 6, 6}));
  EXPECT_EQ(given[2], (Pixels{4, 4, 6, 6, 0, 0}));
}

TEST(WindowFrames, MemoryOfFramesThatNoWindowNeedsGoesRound) {
  const std::vector<FrameWindow> windows{{{0, 1}, 0}, {{2, 3}, 0}};
  WindowFrames waiting(windows);
  const auto take = [](std::size_t, preprocess::Input&&) { return true; };
  waiting.add(0, input(0), take, no_memory);
  waiting.add(1, input(1), take, no_memory);
  EXPECT_TRUE(waiting.frame_memory(no_memory).empty());
  waiting.add(2, input(2), take, no_memory);
  EXPECT_EQ(waiting.frame_memory(no_memory).size(), 2u);
}

TEST(WindowFrames, TilesGoTogetherByNumber) {
  const std::vector<FrameWindow> windows{{{0, 1}, 0}};
  WindowFrames waiting(windows);
  std::vector<std::vector<std::uint8_t>> given;
  const auto take = [&](std::size_t, preprocess::Input&& whole) {
    given.push_back(std::move(whole.pixels));
    return true;
  };
  for (const std::int64_t slot : {0, 1})
    for (std::size_t tile : {0u, 1u})
      waiting.add(slot, input(static_cast<std::uint8_t>(10 * slot + 1) + tile, tile, 2), take,
                  no_memory);
  EXPECT_EQ(given, (std::vector<std::vector<std::uint8_t>>{{1, 1, 11, 11}, {2, 2, 12, 12}}));
  WindowFrames other(windows);
  other.add(0, input(1), take, no_memory);
  EXPECT_THROW(other.add(1, input(1, 0, 2), take, no_memory), DataError);
}

// [B, T, 3, H, W] -> [B, steps]: the mean of the frames of each step.
class StepsBackbone : public vit::Backbone {
 public:
  StepsBackbone(std::int64_t frames, std::int64_t steps) : frames_(frames), steps_(steps) {}
  torch::Tensor forward(const torch::Tensor& clips) override {
    EXPECT_EQ(clips.dim(), 5);
    EXPECT_EQ(clips.size(1), frames_);
    return clips.mean({2, 3, 4}).view({clips.size(0), steps_, -1}).mean(2);
  }
  std::int64_t dimension() const override { return 1; }
  std::int64_t clip_frames() const override { return frames_; }
  std::int64_t clip_steps() const override { return steps_; }
  Precision precision() const override { return Precision::kFp32; }
  Json describe() const override { return {{"kind", "mean of steps"}}; }

 private:
  std::int64_t frames_, steps_;
};

class WindowPipeline : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;

  void SetUp() override { set_quiet(true); }

  // An exam of `frames` images of the levels 10, 20, …
  cache::ExamInfo extract(int frames, const frames::WindowRule& rule, StepsBackbone& backbone,
                          std::vector<float>& levels) {
    for (int i = 0; i < frames; ++i)
      write_grey_image(scratch / concat("in/exam/", i, ".png"), 10 * (i + 1));
    ExtractOptions options = small_options();
    options.selection.windows = rule;
    Plan plan = plan_extraction(frames::list_exams(scratch / "in", {}), {}, nullptr);
    const auto location = cache::locate(scratch / "out.cache");
    cache::ShardWriter writer(location, make_recipe(options, backbone), 1, {});
    const ComputeDevice device{torch::kCPU, &backbone};
    const PipelineResult result = run_pipeline(plan.extract, options, {&device, 1}, writer);
    EXPECT_EQ(result.row_name, backbone.clip_steps() > 1 ? "step" : "window");
    writer.finish();
    const cache::CacheReader reader(scratch / "out.cache");
    for (const float feature : reader.features(0)) levels.push_back(std::round(feature * 255));
    return reader.exams().at(0);
  }
};

std::vector<std::string> values(const cache::ExamInfo& exam, const char* column) {
  return frame_column(exam, column)->values;
}

TEST_F(WindowPipeline, StepsAreRowsInTheOrderOfTheirFrames) {
  frames::WindowRule rule;
  rule.frames = 4;
  rule.step = 2;
  StepsBackbone backbone(4, 2);
  std::vector<float> levels;
  const cache::ExamInfo exam = extract(6, rule, backbone, levels);
  // Windows 0–3 and 2–5: the frames 2 and 3 are the second step of one and the first of the other.
  EXPECT_EQ(levels, (std::vector<float>{15, 35, 35, 55}));
  EXPECT_EQ(values(exam, frames::kWindowFirst), (std::vector<std::string>{"0", "2", "2", "4"}));
  EXPECT_EQ(values(exam, frames::kWindowLast), (std::vector<std::string>{"1", "3", "3", "5"}));
}

TEST_F(WindowPipeline, StepsThatSawNothingAreNoRows) {
  frames::WindowRule rule;
  rule.frames = 8;
  rule.step = 8;
  rule.pad = frames::WindowPad::kZero;
  StepsBackbone backbone(8, 4);
  std::vector<float> levels;
  const cache::ExamInfo exam = extract(3, rule, backbone, levels);
  EXPECT_EQ(levels, (std::vector<float>{15, 15}));  // 30 and a zero
  EXPECT_EQ(values(exam, frames::kWindowPadded), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(values(exam, frames::kWindowLast), (std::vector<std::string>{"1", "2"}));
}

// Zeros lie where their window's frames end, whichever part of a batch it is computed in.
TEST_F(WindowPipeline, PaddingIsZeroInEveryPartOfABatch) {
  ExtractOptions options = small_options();
  options.preprocessing.mean = {0.5, 0.5, 0.5};  // black is not 0
  StepsBackbone backbone(2, 2);
  auto streams = std::make_unique<FakeStreams>(FakeStreams::Eager::kNone);
  FakeStreams& lanes = *streams;
  lanes.device_frames = 3;
  std::map<std::size_t, std::vector<float>> received;
  BackboneBatch batch(
      backbone, torch::kCPU, options.preprocessing, {4, 0},
      [&](const FeatureIndex& place, std::span<const float> row) {
        received[place.window] = {row.begin(), row.end()};
      },
      std::move(streams));
  for (std::size_t i = 0; i < 11; ++i) {
    if (i == 4) lanes.out_of_memory = 1;
    std::vector<std::uint8_t> pixels(2 * 16 * 16 * 3, static_cast<std::uint8_t>(100 + i / 2));
    batch.add({{0, i}, std::move(pixels), i % 2});
  }
  batch.compute();
  ASSERT_EQ(received.size(), 11u);
  for (std::size_t i = 0; i < 11; ++i) {
    const auto level = static_cast<float>(100 + i / 2) / 255 - 0.5f;
    EXPECT_NEAR(received[i][0], level, 1e-6) << i;
    EXPECT_NEAR(received[i][1], i % 2 == 0 ? level : 0, 1e-6) << i;
  }
}

}  // namespace
}  // namespace coldframe::extract
