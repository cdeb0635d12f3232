#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <numeric>

#include "cache/store/reader.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/input/exam_list.h"
#include "extract/pipeline/devices.h"
#include "extract/pipeline/feature_sink.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/recipe.h"
#include "extract/pipeline/resume.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
namespace {

class Pipeline : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;
  MeanBackbone backbone;
  std::deque<MeanBackbone> others;  // of further devices

  void SetUp() override { set_quiet(true); }
  void TearDown() override { clear_stop_request(); }

  // Exam i has i % 3 + 1 frames of levels 10·i, 10·i + 1, …
  void make_exams(int count) {
    for (int i = 0; i < count; ++i)
      for (int frame = 0; frame <= i % 3; ++frame)
        write_grey_image(scratch / concat("in/exam", i, "/", frame, ".png"), 10 * i + frame);
  }

  PipelineResult extract(const ExtractOptions& options, bool stop = false) {
    const auto input = frames::list_exams(scratch / "in", {});
    const auto location = cache::locate(scratch / "out.cache");
    std::optional<cache::CacheReader> cached;
    if (!location.files().empty()) cached.emplace(location.path);
    const Plan plan = plan_extraction(input, {}, cached ? &*cached : nullptr);
    if (stop) request_stop();
    cache::ShardWriter writer(location, make_recipe(options, backbone), 2, {});
    std::vector<ComputeDevice> devices{{torch::kCPU, &backbone}};
    for (MeanBackbone& more : others) devices.push_back({torch::kCPU, &more});
    const auto result = run_pipeline(plan.extract, options, devices, writer);
    result.stopped ? writer.publish() : writer.finish();
    return result;
  }
};

TEST_F(Pipeline, EveryFrameOfEveryExamComesOutInItsPlace) {
  make_exams(12);
  const auto result = extract(small_options(5));
  EXPECT_EQ(result.exams, 12u);
  EXPECT_EQ(result.frames, 24u);
  const cache::CacheReader reader(scratch / "out.cache");
  ASSERT_EQ(reader.exams().size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(reader.exams()[i].id, concat("exam", i));
    const auto features = reader.features(i);
    ASSERT_EQ(features.size(), 2 * (i % 3 + 1));
    for (std::size_t frame = 0; frame <= i % 3; ++frame)
      EXPECT_NEAR(features[2 * frame], static_cast<float>(10 * i + frame) / 255, 1e-3);
  }
}

TEST_F(Pipeline, AnExamThatStaysAsItWasLeavesNothingBehind) {
  cache::ShardWriter writer(cache::locate(scratch / "out.cache"),
                            make_recipe(small_options(1), backbone), 2, {});
  FeatureSink sink(2, backbone, writer, small_options(1));
  const std::vector<float> row{1, 2};
  sink.add_feature({0, 0}, row);
  DecodedExam again{0, {}, {}, std::nullopt};  // its later frames cannot be read as they could
  again.as_before = true;
  sink.add_exam(std::move(again));
  sink.add_feature({0, 1}, row);  // of a batch that was under way
  EXPECT_EQ(sink.unfinished(), 0u);
  EXPECT_EQ(sink.finish().unchanged, 1u);
}

// A copy of every exam's features by view, of a cache that is made anew.
std::vector<std::vector<float>> all_views(const std::filesystem::path& path) {
  const cache::CacheReader reader(path);
  std::vector<std::vector<float>> features;
  for (std::size_t i = 0; i < reader.exams().size(); ++i)
    for (const std::string& view : reader.views()) features.push_back(reader.features(i, view));
  return features;
}

TEST_F(Pipeline, ViewsDependNeitherOnBatchesNorOnThreads) {
  make_exams(5);
  auto options = small_options(5);
  options.augmentation.views = 2;
  augment::parse_list("brightness=0.2,noise=0.02", options.augmentation);
  extract(options);
  const auto first = all_views(scratch / "out.cache");
  ASSERT_EQ(first.size(), 15u);
  std::filesystem::remove_all(scratch / "out.cache");
  options.batch.batch = 2;
  options.decode_threads = 1;
  extract(options);
  EXPECT_EQ(all_views(scratch / "out.cache"), first);
  for (std::size_t exam = 1; exam < 5; ++exam) {  // exam0 starts black
    EXPECT_NE(first[3 * exam], first[3 * exam + 1]);
    EXPECT_NE(first[3 * exam + 1], first[3 * exam + 2]);
  }
  std::filesystem::remove_all(scratch / "out.cache");
  options.augmentation.seed = 1;
  extract(options);
  const auto other = all_views(scratch / "out.cache");
  EXPECT_EQ(other[3], first[3]);
  EXPECT_NE(other[4], first[4]);
}

TEST_F(Pipeline, EqualFramesAreComputedOncePerView) {
  for (int frame = 0; frame < 6; ++frame)
    write_grey_image(scratch / concat("in/still/", frame, ".png"), 100);
  auto options = small_options(4);
  options.augmentation.views = 3;
  augment::parse_list("brightness=0.3,noise=0.05", options.augmentation);
  const auto result = extract(options);
  EXPECT_EQ(result.repeated, 20u);  // of 6 frames in 4 views
  const cache::CacheReader reader(scratch / "out.cache");
  for (const std::string& view : reader.views()) {
    const auto features = reader.features(0, view);
    for (std::size_t frame = 1; frame < 6; ++frame) EXPECT_EQ(features[2 * frame], features[0]);
  }
}

TEST_F(Pipeline, SeveralDevicesGiveTheSameCache) {
  make_exams(24);
  others.emplace_back();
  others.emplace_back();
  for (const char* name : {"in/exam7/0.png", "in/exam7/1.png"})
    write_text(scratch / name, "\x89PNG\r\n\x1a\nnot a picture");
  const auto result = extract(small_options(3));
  EXPECT_EQ(result.exams, 23u);
  EXPECT_EQ(result.failures.size(), 1u);
  const cache::CacheReader reader(scratch / "out.cache");
  ASSERT_EQ(reader.exams().size(), 23u);
  for (std::size_t at = 0; at < 23; ++at) {  // in the order of the input
    const std::size_t i = at < 7 ? at : at + 1;
    EXPECT_EQ(reader.exams()[at].id, concat("exam", i));
    const auto features = reader.features(at);
    ASSERT_EQ(features.size(), 2 * (i % 3 + 1));
    for (std::size_t frame = 0; frame <= i % 3; ++frame)
      EXPECT_NEAR(features[2 * frame], static_cast<float>(10 * i + frame) / 255, 1e-3);
  }
}

TEST_F(Pipeline, ADeviceThatRunsOutOfMemoryGoesOnWithLess) {
  make_exams(12);
  others.emplace_back(/*fits=*/1);
  const auto result = extract(small_options(4));
  EXPECT_EQ(result.exams, 12u);
  EXPECT_EQ(cache::CacheReader(scratch / "out.cache").exams().size(), 12u);
}

TEST_F(Pipeline, AnErrorOnOneDeviceEndsTheJobWithThatError) {
  make_exams(24);
  others.emplace_back(/*fits=*/0);
  std::atomic<bool> tried = false;
  others.front().before = [&] {
    tried = true;
    tried.notify_all();
  };
  backbone.before = [&] { tried.wait(false); };  // the sound device waits for the other's turn
  try {
    extract(small_options(2));
    FAIL() << "no error";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("not enough memory for a single frame"));
  }
}

TEST_F(Pipeline, AStopRequestReachesAllDevices) {
  make_exams(9);
  others.emplace_back();
  const auto stopped = extract(small_options(), /*stop=*/true);
  EXPECT_TRUE(stopped.stopped);
  clear_stop_request();
  extract(small_options());
  EXPECT_EQ(cache::CacheReader(scratch / "out.cache").exams().size(), 9u);
}

TEST_F(Pipeline, TheFirstFramesThatCanBeReadAreKnownBeforehand) {
  make_exams(4);
  write_text(scratch / "in/exam0/0.png", "\x89PNG\r\n\x1a\nnot a picture");
  const auto input = frames::list_exams(scratch / "in", {});
  const ExtractOptions options = small_options();
  const torch::Tensor frames = first_frames(input, options, 4)().images;
  ASSERT_EQ(frames.sizes(), (std::vector<std::int64_t>{4, 3, 16, 16}));
  const torch::Tensor levels = frames.select(1, 0).mean({1, 2}) * 255;
  EXPECT_TRUE(levels.allclose(torch::tensor({10.0f, 11.0f, 20.0f, 21.0f}))) << levels;
  EXPECT_EQ(first_frames(input, options, 9)().frames.size(0), 6);
  EXPECT_FALSE(first_frames({}, options, 4)().images.defined());
}

TEST_F(Pipeline, AnUnreadableFrameKeepsItsSlotAndIsTriedAgain) {
  make_exams(3);
  write_text(scratch / "in/exam2/1.png", "");
  for (int run = 0; run < 3; ++run) {
    const auto result = extract(small_options());
    EXPECT_EQ(result.exams, run == 0 ? 3u : 0u);
    EXPECT_EQ(result.unchanged, run == 0 ? 0u : 1u);
    EXPECT_TRUE(result.failures.empty());
    ASSERT_EQ(result.lost.size(), 1u);
    EXPECT_EQ(result.lost[0].source, "exam2/1.png");
    EXPECT_THAT(result.lost[0].reason, ::testing::HasSubstr("is empty"));
    const cache::CacheReader reader(scratch / "out.cache");
    const std::size_t exam = reader.find("exam2");
    EXPECT_EQ(reader.exams()[exam].present, (std::vector<std::uint8_t>{1, 0, 1}));
    EXPECT_EQ(reader.exams()[exam].revision, 0u);
    EXPECT_NEAR(reader.features(exam)[4], 22.0 / 255, 1e-3);
    EXPECT_EQ(reader.failures().size(), 1u);
  }
  write_grey_image(scratch / "in/exam2/1.png", 100);
  EXPECT_EQ(extract(small_options()).exams, 1u);
  const cache::CacheReader reader(scratch / "out.cache");
  EXPECT_EQ(reader.exams()[reader.find("exam2")].present, (std::vector<std::uint8_t>{1, 1, 1}));
  EXPECT_TRUE(reader.failures().empty());
}

TEST_F(Pipeline, TooFewReadableFramesFailTheExam) {
  make_exams(3);
  write_text(scratch / "in/exam2/1.png", "");
  auto options = small_options();
  options.min_frames = 3;
  const auto result = extract(options);
  EXPECT_TRUE(result.lost.empty());
  ASSERT_EQ(result.failures.size(), 3u);  // the others are of fewer frames
  const auto of_exam2 = std::find_if(result.failures.begin(), result.failures.end(),
                                     [](const auto& failure) { return failure.exam == "exam2"; });
  EXPECT_THAT(of_exam2->reason, ::testing::HasSubstr("only 2 frames can be read"));
  EXPECT_THAT(of_exam2->reason, ::testing::HasSubstr("1.png' is empty"));
}

TEST_F(Pipeline, FramesOfTheCacheAreNotGivenUpForFewer) {
  make_exams(3);
  extract(small_options());
  write_text(scratch / "in/exam2/1.png", "");
  const auto result = extract(small_options());
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].reason, ::testing::HasSubstr("the 3 of the cache are kept"));
  const cache::CacheReader reader(scratch / "out.cache");
  EXPECT_EQ(reader.exams()[reader.find("exam2")].present, (std::vector<std::uint8_t>{1, 1, 1}));
}

TEST_F(Pipeline, OneBadExamIsRecordedAndTheRestGoesOn) {
  make_exams(3);
  for (const char* name : {"in/exam1/0.png", "in/exam1/1.png"})
    write_text(scratch / name, "\x89PNG\r\n\x1a\nnot a picture");
  const auto result = extract(small_options());
  EXPECT_EQ(result.exams, 2u);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.failures[0].exam, "exam1");
  EXPECT_THAT(result.failures[0].reason, ::testing::HasSubstr("0.png"));

  for (int frame : {0, 1}) write_grey_image(scratch / concat("in/exam1/", frame, ".png"), 10);
  const auto again = extract(small_options());
  EXPECT_EQ(again.exams, 1u);
  const cache::CacheReader reader(scratch / "out.cache");
  EXPECT_EQ(reader.exams().size(), 3u);
  EXPECT_TRUE(reader.failures().empty());
}

TEST_F(Pipeline, StrictStopsAtTheFirstFailure) {
  make_exams(3);
  write_text(scratch / "in/exam1/0.png", "\x89PNG\r\n\x1a\nnot a picture");
  auto options = small_options();
  options.strict = true;
  EXPECT_THROW(extract(options), DataError);
}

TEST_F(Pipeline, AStopRequestKeepsWhatIsDoneAndTheNextRunCompletesIt) {
  make_exams(9);
  const auto stopped = extract(small_options(), /*stop=*/true);
  EXPECT_TRUE(stopped.stopped);
  clear_stop_request();
  extract(small_options());
  EXPECT_EQ(cache::CacheReader(scratch / "out.cache").exams().size(), 9u);
}

TEST_F(Pipeline, AStopRequestAfterTheLastExamStopsNothing) {
  make_exams(3);
  extract(small_options());
  EXPECT_FALSE(extract(small_options(), /*stop=*/true).stopped);
}

TEST_F(Pipeline, AFeatureBeyondFloat16FailsItsExamOnly) {
  make_exams(2);
  auto options = small_options();
  options.preprocessing.std = {1e-7f, 1e-7f, 1e-7f};
  const auto result = extract(options);  // exam0 is black: 0 / 1e-7 = 0
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].reason, ::testing::HasSubstr("--store float32"));
}

}  // namespace
}  // namespace coldframe::extract
