// Tests of which frames are taken, and of what a clip's times are worth.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "common/cli/error.h"
#include "extract/frames/clip/picture.h"
#include "extract/frames/clip/times.h"
#include "extract/frames/image/orientation.h"
#include "extract/frames/source.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;
using Indices = std::vector<std::int64_t>;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::vector<double> regular(int count, double rate) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(i / rate);
  return times;
}

TEST(SelectFrames, ByTimeThenByDistanceThenByNumber) {
  const auto ten_a_second = regular(20, 10), clip = regular(11, 25);
  const std::vector<double> uneven{0, 0.1, 0.5, 0.55, 2.0}, twins{0, 1, 1, 2}, unknown(4, kUnknown);
  struct Case {
    std::vector<double> times;
    FrameSelection selection;
    Indices expected;
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Case cases[] = {
      {unknown, {.every = 2}, {0, 2}},
      {ten_a_second, {.count = 2, .every = 7}, {0, 14}},
      {ten_a_second, {.start_s = 0.5, .end_s = 0.8}, {5, 6, 7}},
      {ten_a_second, {.every = 2, .start_s = 1.5}, {15, 17, 19}},
      {ten_a_second, {.fps = 2}, {0, 5, 10, 15}},
      {ten_a_second, {.fps = 2, .start_s = 0.3, .end_s = 1.5}, {3, 8, 13}},
      {ten_a_second, {.count = 1, .fps = 2}, {10}},
      {ten_a_second, {.fps = 1000}, spread_evenly(20, 0)},
      {clip, {.fps = 10}, {0, 2, 5, 7, 10}},  // 0.1 and 0.3 s lie between two frames
      {uneven, {.fps = 2}, {0, 2, 3, 4}},
      {twins, {.fps = 1}, {0, 1, 3}},
      {{kUnknown}, {.fps = 1}, {0}},
      {{}, {.fps = 1, .start_s = 0, .end_s = inf}, {}},
  };
  for (const auto& [times, selection, expected] : cases) {
    EXPECT_EQ(select_frames(times, selection), expected)
        << times.size() << " frames, every " << selection.every << ", fps " << selection.fps;
  }
}

TEST(SelectFrames, TakesAShareOfEachPhase) {
  const FrameSelection six{.count = 6, .phases = {103, 518}};
  const std::vector<double> times{0, 1, 2, 3, 4, 5, 102.9, 103, 200, 517, 518, 900};
  EXPECT_EQ(select_frames(times, six), (Indices{0, 6, 7, 9, 10, 11}));
  EXPECT_EQ(select_frames(times, {.count = 4, .phases = {103, 518}}), (Indices{0, 6, 8, 10}));
  EXPECT_EQ(select_frames(times, {.count = 2, .phases = {103, 518}}), (Indices{3, 8}));
  EXPECT_EQ(select_frames(times, {.count = 12, .phases = {103}}), spread_evenly(12, 0));
  // A second is elapsed time: the first frame comes at 100 s.
  EXPECT_EQ(select_frames(times, six, 100), (Indices{0, 2, 3, 8, 9, 11}));
  EXPECT_EQ(count_phases(times, six.phases, 100), (std::vector<std::size_t>{3, 6, 3}));
  const std::vector<double> fallen{600, 5, 4, 300, 2, 1, 0};  // --allow-unordered
  EXPECT_EQ(select_frames(fallen, {.count = 3, .phases = {103, 518}}), (Indices{0, 3, 4}));
  const std::vector<double> unknown{0, kUnknown, 2};
  EXPECT_NE(message_of<DataError>([&] {
              select_frames(unknown, {.count = 2, .phases = {1}});
            }).find("frame 1 has no known time, which --phases needs"),
            std::string::npos);
}

TEST(SelectFrames, CountsInstantsWhereFramesHaveStreams) {
  ExamSpec exam;
  std::vector<std::size_t> items;
  std::vector<double> times;
  for (const char* stream : {"FA", "ICGA"})
    for (int i = 0; i < 20; ++i) {
      items.push_back(exam.items.size());
      exam.items.emplace_back().stream = stream;
      times.push_back(i);
    }
  EXPECT_EQ(select_slots(exam, items, times, {.count = 3}), (Indices{0, 10, 19, 20, 30, 39}));
  EXPECT_EQ(select_slots(exam, items, times, {.every = 10}), (Indices{0, 10, 20, 30}));
  EXPECT_EQ(select_slots(exam, items, times, {.count = 2, .phases = {10}}),
            (Indices{4, 14, 24, 34}));
  exam.elapsed_start = 5;
  EXPECT_EQ(select_slots(exam, items, times, {.count = 2, .phases = {10}}),
            (Indices{2, 12, 22, 32}));
  for (double& time : times) time = kUnknown;
  EXPECT_EQ(select_slots(exam, items, times, {.count = 2}), (Indices{0, 19, 20, 39}));
  for (ExamItem& item : exam.items) item.stream.clear();
  EXPECT_EQ(select_slots(exam, items, times, {.count = 2}), (Indices{0, 39}));
}

TEST(SelectFrames, SaysWhyTimesDoNotServe) {
  struct Case {
    std::vector<double> times;
    FrameSelection selection;
    const char* reason;
  };
  const Case cases[] = {
      {{0, 1, kUnknown}, {.fps = 1}, "frame 2 has no known time"},
      {{0, 2, 1}, {.end_s = 5}, "frame 2 has time 1.000 s after frame 1 at 2.000 s"},
      {{0, 1, 2}, {.start_s = 2.5}, "the last is at 2.000 s"},
  };
  for (const auto& each : cases) {
    const auto select = [&] { select_frames(each.times, each.selection); };
    EXPECT_NE(message_of<DataError>(select).find(each.reason), std::string::npos) << each.reason;
  }
}

TEST(ClipTimes, CountOnlyIfTheyRise) {
  EXPECT_EQ(settle_times({5, 6, 8}), (std::vector<double>{0, 1, 3}));
  for (const double time : settle_times({0, 1, 1, 2})) EXPECT_TRUE(std::isnan(time));
  for (const double time : settle_times({0, 2, 1})) EXPECT_TRUE(std::isnan(time));
  for (const double time : settle_times({0, kUnknown, 1})) EXPECT_TRUE(std::isnan(time));
}

TEST(ClipTimes, OfTheLastFramesContinueAConstantInterval) {
  EXPECT_EQ(settle_times({0, 1, 2, kUnknown, kUnknown}), (std::vector<double>{0, 1, 2, 3, 4}));
  const auto varying = settle_times({0, 1, 4, kUnknown});
  EXPECT_EQ(varying[2], 4);
  EXPECT_TRUE(std::isnan(varying[3]));
}

TEST(Orientation, MovesEveryPixelAsTheMatrixSays) {
  const Image image{3, 2, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6}};
  struct Case {
    std::array<std::int32_t, 9> matrix;
    int width;
    std::string pixels;
  };
  const Case cases[] = {
      {{1, 0, 0, 0, 1}, 3, "123456"},   {{-1, 0, 0, 0, -1}, 3, "654321"},
      {{-1, 0, 0, 0, 1}, 3, "321654"},  {{1, 0, 0, 0, -1}, 3, "456123"},
      {{0, 1, 0, -1, 0}, 2, "415263"},  // a quarter turn clockwise
      {{0, -1, 0, 1, 0}, 2, "362514"},  {{0, 1, 0, 1, 0}, 2, "142536"},
      {{0, -1, 0, -1, 0}, 2, "635241"},
  };
  for (const auto& [matrix, width, pixels] : cases) {
    const Image shown = upright(image, matrix_orientation(matrix));
    EXPECT_EQ(shown.width, width);
    EXPECT_EQ(shown.width * shown.height, 6);
    for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(shown.rgb[i], pixels[i / 3] - '0');
  }
  EXPECT_EQ(matrix_orientation(std::array<std::int32_t, 9>{}), 1);
  EXPECT_THROW(matrix_orientation(std::array<std::int32_t, 9>{7, 7, 0, -7, 7}), DataError);
}

}  // namespace
}  // namespace coldframe::frames
