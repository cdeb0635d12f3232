// Selection, times and reading of exams.
#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/imgcodecs.hpp>

#include "common/cli/error.h"
#include "common/text/timestamp.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;
using coldframe::testing::TemporaryFolder;

std::string one_pixel_png(int grey) {
  std::vector<unsigned char> bytes;
  cv::imencode(".png", cv::Mat(1, 1, CV_8UC1, cv::Scalar(grey)), bytes);
  return {bytes.begin(), bytes.end()};
}

ExamItem item_of(const std::filesystem::path& path, double time_s = std::nan("")) {
  ExamItem item;
  item.path = path;
  item.name = path.filename().string();
  item.time_s = time_s;
  return item;
}

TEST(SelectFrames, SpreadsEvenlyWithHalvesToEven) {
  using Indices = std::vector<std::int64_t>;
  struct Case {
    std::int64_t available, count;
    Indices expected;
  };
  const Case cases[] = {
      {5, 0, {0, 1, 2, 3, 4}},
      {3, 3, {0, 1, 2}},
      {2, 12, {0, 1}},
      {0, 4, {}},
      {5, 1, {2}},
      {2, 1, {0}},
      {4, 1, {2}},
      {10, 2, {0, 9}},
      {10, 3, {0, 4, 9}},
      {8, 3, {0, 4, 7}},
      {6, 3, {0, 2, 5}},
      {21, 5, {0, 5, 10, 15, 20}},
  };
  for (const auto& [available, count, expected] : cases) {
    EXPECT_EQ(spread_evenly(available, count), expected) << available << " " << count;
  }
}

TEST(Timestamp, UnderstandsSecondsAndIso8601) {
  struct Case {
    const char* text;
    double seconds;
    bool absolute;
  };
  const Case cases[] = {
      {"12.5", 12.5, false},
      {"-3", -3, false},
      {"1970-01-02", 86400, true},
      {"1970-01-01T00:00:01Z", 1, true},
      {"1970-01-01 00:01", 60, true},
      {"1970-01-01T02:00:00+02:00", 0, true},
      {"1970-01-01T02:00:00.25+0130", 1800.25, true},
      {"1969-12-31T19:00:00-05", 0, true},
      {"2024-02-29T12:30:05", 1709209805, true},
      {"20240229", 1709164800, true},
      {"20240229.0", 1709164800, true},
      {"20240229T1230", 1709209800, true},
      {"20240229T123005Z", 1709209805, true},
      {"20240229123005", 1709209805, true},
      {"20240229123005.25+0100", 1709206205.25, true},
      {"0", 0, false},
      {"3600", 3600, false},
      {"20230229", 20230229, false},  // no such day
      {"12345678", 12345678, false},
      {"202402291230", 202402291230, false},
      {"20240229.5", 20240229.5, false},
      {"20240229246060", 20240229246060, false},
  };
  for (const auto& [text, seconds, absolute] : cases) {
    const auto time = parse_timestamp(text);
    ASSERT_TRUE(time) << text;
    EXPECT_DOUBLE_EQ(time->seconds, seconds) << text;
    EXPECT_EQ(time->absolute, absolute) << text;
  }
}

TEST(Timestamp, RefusesWhatIsNeither) {
  for (const char* text : {"",
                           "nan",
                           "inf",
                           "1e999",
                           "soon",
                           "12:30",
                           "2023-02-29",
                           "2024-13-01",
                           "2024-1-1",
                           "2024-01-01T",
                           "2024-01-01T24:00",
                           "2024-01-01T10:60",
                           "2024-01-01T10:00:60",
                           "2024-01-01T10:00:00+25:00",
                           "2024-01-01T10:00:00 UTC",
                           "2024-01-01T10:00:00.Z",
                           "2024-01-01T10",
                           "20240101T",
                           "20240101T10",
                           "20230229T1000",
                           "20240101T2400",
                           "20240101 1000",
                           "20240101Z",
                           "1e308",
                           "-2e15"}) {
    EXPECT_FALSE(parse_timestamp(text)) << text;
  }
}

TEST(ReadExam, KeepsTheSlotOfAMissingFrame) {
  const TemporaryFolder folder;
  ExamSpec exam;
  exam.id = "e";
  exam.items = {item_of(folder.write("a.png", one_pixel_png(1)), 0.0), item_of("", 2.0),
                item_of(folder.write("b.png", one_pixel_png(2)), 5.0)};
  std::vector<ExamSlot> slots;
  const auto summary = read_exam(exam, {}, {}, [&](ExamSlot&& slot) {
    slots.push_back(std::move(slot));
    return true;
  });
  EXPECT_EQ(summary.kind, "images");
  ASSERT_EQ(summary.slots, 3u);
  EXPECT_TRUE(slots[0].present);
  EXPECT_FALSE(slots[1].present);
  EXPECT_TRUE(slots[1].frame.pixels.rgb.empty());
  EXPECT_EQ(slots[1].frame.time_s, 2.0);
  EXPECT_EQ(slots[2].frame.time_s, 5.0);
  EXPECT_EQ(slots[2].slot, 2u);
  EXPECT_EQ(slots[2].frame.pixels.rgb, (std::vector<std::uint8_t>{2, 2, 2}));
}

TEST(ReadExam, StopsWhenTheSinkHasHadEnough) {
  const TemporaryFolder folder;
  ExamSpec exam;
  for (const char* name : {"a.png", "b.png", "c.png"}) {
    exam.items.push_back(item_of(folder.write(name, one_pixel_png(1))));
  }
  int seen = 0;
  read_exam(exam, {}, {}, [&](ExamSlot&&) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
}

TEST(ReadExam, SaysWhichFileIsWrongAndWhy) {
  const TemporaryFolder folder;
  struct Case {
    std::filesystem::path path;
    const char* reason;
  };
  const Case cases[] = {
      {folder / "absent.png", "No such file"},
      {folder.write("empty.png", ""), "is empty"},
      {folder.write("text.png", "hello, world"), "is of no known kind"},
      {folder.write("cut.png", one_pixel_png(1).substr(0, 56)), "truncated"},
      {folder.write("not.mp4", std::string("\0\0\0\x0c"
                                           "ftypisom",
                                           12)),
       "cannot be opened"},
      {folder.write("cut.mp4", std::string("\0\0\0\x18"
                                           "ftypisom",
                                           12)),
       "it is truncated: it ends at byte 12 of at least 24"},
      {folder / ".", "folder"},
  };
  for (const auto& [path, reason] : cases) {
    ExamSpec exam;
    exam.items = {item_of(path)};
    const auto message =
        message_of<DataError>([&] { read_exam(exam, {}, {}, [](ExamSlot&&) { return true; }); });
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_NE(message.find(path.filename().string()), std::string::npos) << message;
  }
}

TEST(ReadExam, RefusesAnExamOfWhichEveryFrameIsMissing) {
  ExamSpec exam;
  exam.id = "hollow";
  exam.items = {item_of(""), item_of("")};
  EXPECT_NE(message_of<DataError>([&] {
              read_exam(exam, {}, {}, [](ExamSlot&&) { return true; });
            }).find("hollow"),
            std::string::npos);
}

}  // namespace
}  // namespace coldframe::frames
