#include <gmock/gmock.h>
#include <map>
#include <numeric>

#include <set>

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

using ::testing::ElementsAre;

TEST(Sampler, DrawsTheAskedNumberInOrderAndEveryPositionEquallyOften) {
  std::vector<int> drawn(10);
  CounterRandom random({7});
  for (int round = 0; round < 3000; ++round) {
    const auto chosen = draw_in_order(10, 4, random);
    ASSERT_EQ(chosen.size(), 4u);
    ASSERT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    ASSERT_EQ(std::set(chosen.begin(), chosen.end()).size(), 4u);
    for (auto position : chosen) ++drawn[static_cast<std::size_t>(position)];
  }
  for (int count : drawn) EXPECT_NEAR(count, 1200, 110);  // 4 standard deviations
}

TEST(Sampler, TakesAllFramesWhenThereAreNoMoreThanAskedFor) {
  CounterRandom random({7});
  EXPECT_THAT(draw_in_order(3, 8, random), ElementsAre(0, 1, 2));
  EXPECT_THAT(draw_in_order(3, 3, random), ElementsAre(0, 1, 2));
}

TEST(Sampler, DrawsAnewInEveryEpochButTheSameForTheSameKey) {
  const FrameSampler sampler(FrameOrder::kInOrder, 5, 3);
  const auto first = sampler.for_training(40, 11, 0);
  EXPECT_EQ(first.features, sampler.for_training(40, 11, 0).features);
  EXPECT_NE(first.features, sampler.for_training(40, 11, 1).features);
  EXPECT_NE(first.features, sampler.for_training(40, 12, 0).features);
  EXPECT_EQ(first.features, first.times);
  EXPECT_EQ(sampler.for_evaluation(40, 11).features.size(), 40u);
}

TEST(Sampler, ShufflesFeaturesAndLeavesTimesInPlace) {
  const FrameSampler sampler(FrameOrder::kShuffled, 0, 3);
  const auto test = sampler.for_evaluation(12, 5);
  EXPECT_TRUE(std::is_sorted(test.times.begin(), test.times.end()));
  EXPECT_FALSE(std::is_sorted(test.features.begin(), test.features.end()));
  EXPECT_TRUE(std::is_permutation(test.features.begin(), test.features.end(), test.times.begin()));
  EXPECT_EQ(test.features, sampler.for_evaluation(12, 5).features);
  EXPECT_NE(test.features, sampler.for_evaluation(12, 6).features);
}

TEST(Sampler, ShowsTheFirstOrTheLastFrameAlone) {
  EXPECT_EQ(FrameSampler(FrameOrder::kFirst, 0, 3).for_evaluation(7, 1).features,
            std::vector<std::int64_t>{0});
  EXPECT_EQ(FrameSampler(FrameOrder::kLast, 0, 3).for_evaluation(7, 1).times,
            std::vector<std::int64_t>{6});
}

TEST(Sampler, TakesTheMiddleFrameForTheSingleBaseline) {
  const FrameSampler sampler(FrameOrder::kMiddle, 0, 3);
  EXPECT_THAT(sampler.for_evaluation(9, 5).features, ElementsAre(4));
  EXPECT_THAT(sampler.for_evaluation(1, 5).features, ElementsAre(0));
}

TEST(Batcher, PacksTheLongestSequenceFirstAndRowsStepByStep) {
  const Dataset dataset = testing::noise_dataset({2, 3, 1}, 4);
  const PackedBatch batch = make_batch(dataset, testing::all_frames(dataset, {0, 1, 2}));
  EXPECT_THAT(batch.exams, ElementsAre(1, 0, 2));
  // Exam 0 has the rows 0 and 1, exam 1 the rows 2 to 4, exam 2 row 5.
  EXPECT_EQ(batch.frame_rows, (std::vector<std::int64_t>{2, 0, 5, 3, 1, 4}));
  EXPECT_EQ(batch.batch_sizes, (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(batch.lengths, (std::vector<std::int64_t>{3, 2, 1}));
}

TEST(Batcher, ComputesIntervalsAfterSamplingAndMarksUnknownTimes) {
  Dataset dataset = testing::noise_dataset({4}, 2);
  dataset.sequences[0].time_s = {0.0, 1.0, 3.0, cache::kUnknownTime};
  const PackedBatch batch = make_batch(dataset, {{0, {{0, 2, 3}, {0, 2, 3}}}});
  const auto at = [&](int row, int column) {
    return batch.tensors.time[row][column].item<float>();
  };
  EXPECT_EQ(at(0, kIntervalKnown), 0);
  EXPECT_EQ(at(0, kTimeKnown), 1);
  EXPECT_NEAR(at(1, kLogInterval), std::log(3.0), 1e-6);
  EXPECT_EQ(at(1, kSinceFirst), 3);
  EXPECT_EQ(at(2, kTimeKnown), 0);
  EXPECT_EQ(at(2, kIntervalKnown), 0);
}

TEST(Batcher, TellsTheTimeSinceAZeroThatExamsShare) {
  Dataset dataset = testing::noise_dataset({2, 1}, 2);
  dataset.sequences[0].time_s = {0.0, 22.0};
  dataset.sequences[0].elapsed_start = 8;
  const PackedBatch batch = make_batch(dataset, testing::all_frames(dataset, {0, 1}));
  const auto at = [&](int row, int column) {
    return batch.tensors.time[row][column].item<float>();
  };
  EXPECT_NEAR(at(0, kLogElapsed), std::log(9.0), 1e-6);
  EXPECT_NEAR(at(2, kLogElapsed), std::log(31.0), 1e-6);
  EXPECT_EQ(at(2, kElapsedKnown), 1);
  EXPECT_EQ(at(1, kElapsedKnown), 0);  // of the exam that states no start
  EXPECT_EQ(at(1, kLogElapsed), 0);
  EXPECT_DOUBLE_EQ(log_elapsed(-5), -log_elapsed(5));
}

TEST(Dataset, SeesWhetherExamsStartAtTimesAfterOneZero) {
  const auto share = [](std::vector<double> starts) {
    std::vector<cache::ExamInfo> exams(starts.size());
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      exams[i].elapsed_start = starts[i];
      used.push_back(i);
    }
    return has_common_zero(exams, used);
  };
  EXPECT_TRUE(share({8, 600, 8}));
  EXPECT_TRUE(share({5, 6.5}));
  EXPECT_FALSE(share({0.02, 0.05, 1.02}));  // where each exam's own first frame is
  EXPECT_FALSE(share({5, 5, 5}));           // frames' times say no more than those since the first
  EXPECT_FALSE(share({8, cache::kUnknownTime, 600}));
  EXPECT_FALSE(share({}));
}

struct TimesCase {
  const char* what;
  std::vector<double> time_s;
  std::vector<std::int64_t> frame_index;
  bool informative;
};

TEST(Dataset, SeesWhetherIntervalsCarryInformation) {
  const double unknown = cache::kUnknownTime;
  const std::vector<TimesCase> cases = {
      {"constant", {0, 0.1, 0.2, 0.3}, {0, 1, 2, 3}, false},
      {"jitter of milliseconds", {0, 0.1002, 0.1999, 0.3}, {0, 1, 2, 3}, false},
      {"unknown", {unknown, unknown, unknown, unknown}, {0, 1, 2, 3}, false},
      {"uneven", {0, 0.1, 0.5, 2.0}, {0, 1, 2, 3}, true},
      // Every second or third frame of a video of 10 frames a second.
      {"picked evenly", {0, 0.2, 0.5, 0.7}, {0, 2, 5, 7}, false},
      {"picked unevenly", {0, 0.2, 0.3, 0.9}, {0, 2, 3, 9}, true},
  };
  for (const TimesCase& c : cases) {
    cache::ExamInfo exam;
    exam.time_s = c.time_s;
    exam.frame_index = c.frame_index;
    exam.present.assign(c.time_s.size(), 1);
    EXPECT_EQ(times_are_informative(std::vector{exam}, std::vector<std::size_t>{0}), c.informative)
        << c.what;
  }
}

TEST(BalancedOrder, ShowsEveryClassAsOften) {
  std::vector<std::size_t> common(30);
  std::iota(common.begin(), common.end(), std::size_t{10});
  const std::vector<std::vector<std::size_t>> classes = {common, {1, 2, 3}, {}};
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const auto order = balanced_order(classes, 7, epoch);
    EXPECT_EQ(order, balanced_order(classes, 7, epoch));
    EXPECT_NE(order, balanced_order(classes, 7, epoch + 1));
    ASSERT_EQ(order.size(), 33u);
    std::map<std::size_t, int> times;
    std::ptrdiff_t rare = 0;
    for (std::size_t exam : order) {
      ++times[exam];
      rare += exam < 10;
    }
    EXPECT_NEAR(static_cast<double>(rare), 16.5, 0.5);
    for (std::size_t exam : {1, 2, 3}) EXPECT_NEAR(times[exam], rare / 3.0, 1);
    for (std::size_t exam : common) EXPECT_LE(times[exam], 1);
  }
}

}  // namespace
}  // namespace coldframe::temporal
