// Tests of which frames are taken, and of what a clip's times are worth.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "common/cli/error.h"
#include "extract/decode/clip/decoder.h"
#include "extract/decode/clip/packets.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/image/still_formats.h"
#include "extract/decode/source.h"
#include "extract/input/select_frames.h"
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

TEST(Borders, TakeInWhatFallsShortOfThemByRounding) {
  const std::vector<double> times{0, 0.1, 0.2, 0.1 + 0.2, 0.4, 0.5};  // 0.30000000000000004
  EXPECT_EQ(select_frames(times, {.start_s = 0.3, .end_s = 0.5}), (Indices{3, 4}));
  EXPECT_EQ(select_frames(times, {.end_s = 0.3}), (Indices{0, 1, 2}));
  EXPECT_EQ(select_frames(times, {.start_s = 0.1000001}), (Indices{2, 3, 4, 5}));
}

TEST(LostTails, StayWhereFramesAreThinnedOut) {
  const std::vector<double> times{0, 1, 2, 3, 4, 4};
  const std::vector<std::int64_t> tails{5};
  EXPECT_EQ(select_frames(times, {.fps = 0.5}, 0, tails), (Indices{0, 2, 4, 5}));
  EXPECT_EQ(select_frames(times, {.every = 2}, 0, tails), (Indices{0, 2, 4, 5}));
  EXPECT_EQ(select_frames(times, {.fps = 0.5, .end_s = 3}, 0, tails), (Indices{0, 2}));
  EXPECT_EQ(select_frames(times, {.count = 2, .fps = 0.5}, 0, tails), (Indices{0, 5}));
}

constexpr std::int64_t kNone = AV_NOPTS_VALUE;

TEST(ClipTimes, CountOnlyIfTheyRise) {
  constexpr AVRational kSecond{1, 1};
  EXPECT_EQ(settle_times({5, 6, 8}, kSecond), (std::vector<double>{0, 1, 3}));
  for (const double time : settle_times({0, 1, 1, 2}, kSecond)) EXPECT_TRUE(std::isnan(time));
  for (const double time : settle_times({0, 2, 1}, kSecond)) EXPECT_TRUE(std::isnan(time));
  for (const double time : settle_times({0, kNone, 1}, kSecond)) EXPECT_TRUE(std::isnan(time));
}

TEST(ClipTimes, AreTheNumbersNearestToTheExactOnes) {
  EXPECT_EQ(settle_times({225000, 261000}, {1, 90000}), (std::vector<double>{0, 0.4}));
  EXPECT_EQ(settle_times({7, 10, 14}, {1, 10}), (std::vector<double>{0, 0.3, 0.7}));
}

TEST(ClipTimes, OfTheLastFramesContinueAConstantInterval) {
  EXPECT_EQ(settle_times({0, 1, 2, kNone, kNone}, {1, 1}), (std::vector<double>{0, 1, 2, 3, 4}));
  const auto varying = settle_times({0, 1, 4, kNone}, {1, 1});
  EXPECT_EQ(varying[2], 4);
  EXPECT_TRUE(std::isnan(varying[3]));
}

// By letters: K a key packet, P another, X and Y these where they are damaged and a frame comes
// out, x where none does; frames come out in this order. "." is a lost slot.
std::string slots_after(const std::string& packets, bool intra_only = false) {
  std::vector<PacketFacts> facts;
  std::vector<DecodedFacts> decoded;
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const char kind = packets[i];
    const auto at = static_cast<std::int64_t>(i);
    facts.push_back({at, kind == 'K' || kind == 'Y', kind == 'x'});
    if (kind != 'x') decoded.push_back({at, at, kind == 'X' || kind == 'Y', kind == 'K'});
  }
  std::string text;
  for (const ClipSlot& slot : slots_of(facts, decoded, intra_only))
    text += slot.decoded < 0 ? '.'
                             : packets[static_cast<std::size_t>(
                                   decoded[static_cast<std::size_t>(slot.decoded)].packet)];
  return text;
}

TEST(Damage, ReachesToTheNextKeyFrameThatIsWhole) {
  EXPECT_EQ(slots_after("KPPKPP"), "KPPKPP");
  EXPECT_EQ(slots_after("KXPKPP"), "K..KPP");
  EXPECT_EQ(slots_after("KPxPKPP"), "KP..KPP");
  EXPECT_EQ(slots_after("KXPYPKP"), "K....KP");
  EXPECT_EQ(slots_after("KPPxPP"), "KPP...");
  EXPECT_EQ(slots_after("KXPKPxKP"), "K..KP.KP");
  EXPECT_EQ(slots_after("xXPKP"), "KP") << "a stream that was joined late";
  EXPECT_EQ(slots_after("KxKKXK", true), "K.KK.K");
}

// Decoded as I0 P3 B1 B2 | I6 B4 B5 P7: the group is open.
TEST(Damage, TakesFramesThatAreShownBeforeTheKeyFrame) {
  const std::vector<PacketFacts> packets{{0, true}, {3, false, true}, {1}, {2}, {6, true}, {4}, {5},
                                         {7}};
  const std::vector<DecodedFacts> decoded{
      {0, 0, false, true}, {2, 1}, {3, 2}, {1, 3}, {5, 4}, {6, 5}, {4, 6, false, true}, {7, 7}};
  std::string text;
  for (const ClipSlot& slot : slots_of(packets, decoded, false))
    text += slot.decoded < 0 ? "." : std::to_string(slot.timestamp);
  EXPECT_EQ(text, "0.....67");
}

TEST(Damage, OfTimeStampsLeavesThoseOfWholeFrames) {
  const std::vector<PacketFacts> packets{{0, true}, {1}, {2, false, true}, {3}, {90, true}};
  const std::vector<DecodedFacts> decoded{
      {0, 0, false, true}, {1, 30}, {2, 20, true}, {3, AV_NOPTS_VALUE}, {4, 90, false, true}};
  std::vector<std::int64_t> stamps;
  for (const ClipSlot& slot : slots_of(packets, decoded, false)) stamps.push_back(slot.timestamp);
  EXPECT_EQ(stamps, (std::vector<std::int64_t>{0, 30, 50, 70, 90}));
}

// Packets of 188 bytes with a header each, `before` bytes in front of every one.
std::string transport_stream(std::size_t before, std::size_t packets) {
  std::string text;
  for (std::size_t i = 0; i < packets; ++i)
    text += std::string(before, 'g') + std::string("G\x01\x00\x10", 4) + std::string(184, 'G');
  return text;
}

TEST(Containers, OfTransportStreamsBeginAnywhere) {
  for (const std::size_t before : {0, 4}) {
    const std::string whole = transport_stream(before, 20);
    for (const std::size_t cut : {0, 1, 100, 187})
      EXPECT_STREQ(clip_demuxer(std::string_view(whole).substr(cut)), "mpegts") << before << cut;
  }
  EXPECT_EQ(clip_demuxer(std::string(4096, 'G')), nullptr) << "a sequence of guanine";
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
