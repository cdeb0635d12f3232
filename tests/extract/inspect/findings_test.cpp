// Every kind of finding on made inputs: one in which it appears, and one in which it does not.
#include "extract/inspect/findings.h"
#include "extract/input/exam_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <opencv2/imgcodecs.hpp>
#include <random>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/inspect/dry_run.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::extract::dry_run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DryRun : public ::testing::Test {
 protected:
  testing::TemporaryFolder scratch;
  Settings settings;
  frames::ExamList input;
  Survey surveyed;

  void SetUp() override {
    set_quiet(true);
    settings.threads = 2;
    for (int i = 0; i < 4; ++i) write_noise(concat(i, ".png"), i);
  }
  void TearDown() override { clear_stop_request(); }

  // Noise in the middle of a black frame, other for each seed; with text at the top left.
  void write_noise(const std::string& name, int seed, int width = 96, int height = 80,
                   bool text = false) {
    cv::Mat image(height, width, CV_8UC1, cv::Scalar(0));
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int y = height / 3; y < height; ++y) {
      for (int x = 0; x < width; ++x) image.at<unsigned char>(y, x) = random() % 256;
    }
    for (int x = 8; text && x < 72; ++x) {
      for (int y = 8; y < 17; ++y)
        if (x % 4 == 0 || (y == 12 && x % 8 < 4)) image.at<unsigned char>(y, x) = 230;
    }
    cv::imwrite(scratch / name, image);
  }

  // A manifest of nothing but exams and files gets times, and one patient, so that unknown ones are
  // no finding.
  std::vector<Finding> look(const std::string& manifest, bool allow_unordered = false) {
    std::vector<std::string> rows = split(manifest, '\n');
    const bool timed = rows.front().find("time") != std::string::npos;
    const bool named = rows.front().find("patient") != std::string::npos;
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
      if (!timed) rows[i] += i == 0 ? ",time" : concat(",", i);
      if (!named) rows[i] += i == 0 ? ",patient" : ",p";
    }
    return look_as_is(join(rows, "\n"), allow_unordered);
  }

  std::vector<Finding> look_as_is(const std::string& manifest, bool allow_unordered = false) {
    scratch.write("m.csv", manifest);
    input =
        frames::list_exams(scratch / "m.csv", {.allow_unordered = true, .reader = settings.reader});
    surveyed = survey(input, settings);
    return find_all(input, surveyed, allow_unordered);
  }

  static std::vector<std::string> kinds(const std::vector<Finding>& findings) {
    std::vector<std::string> result;
    for (const auto& finding : findings) result.push_back(finding.kind);
    return result;
  }
};

constexpr const char* kOrderly =
    "exam,path,time,patient\nA,0.png,0,p\nA,1.png,2,p\nB,2.png,0,q\nB,3.png,2,q\n";

TEST_F(DryRun, AnOrderlyInputHasNoFinding) {
  EXPECT_THAT(look(kOrderly), IsEmpty());
  const ExamSurvey& exam = surveyed.exams.at(0);
  EXPECT_EQ(exam.kind, "images");
  EXPECT_EQ(exam.frames, 2u);
  EXPECT_EQ(exam.timing.kind, TimingKind::kConstant);
  EXPECT_THAT(exam.sizes, ElementsAre(Size{96, 80}));
}

TEST_F(DryRun, UnreadableExamsAreNamedWithTheirReason) {
  scratch.write("bad.png", "\x89PNG\r\n\x1a\nno picture");
  const auto findings = look("exam,path\nA,0.png\nA,1.png\nB,bad.png\nC,nowhere.png\n");
  ASSERT_THAT(kinds(findings), ElementsAre("unreadable"));
  ASSERT_EQ(findings[0].cases.size(), 2u);
  EXPECT_THAT(findings[0].cases[0].exams, ElementsAre("B"));
  EXPECT_THAT(findings[0].cases[0].detail, HasSubstr("bad.png"));
  EXPECT_THAT(findings[0].cases[1].detail, HasSubstr("nowhere.png"));
}

TEST_F(DryRun, DuplicateAndDecreasingTimes) {
  const std::string rows = "exam,path,time\nA,0.png,0\nA,1.png,0\nB,2.png,5\nB,3.png,1\n";
  EXPECT_THAT(kinds(look(rows)), ElementsAre("decreasing_times", "duplicate_times"));
  EXPECT_THAT(kinds(look(rows, true)), ElementsAre("duplicate_times"));
}

TEST_F(DryRun, SeveralFramesWithoutTimes) {
  const auto findings = look_as_is("exam,path\nA,0.png\nA,1.png\nB,2.png\nC,gone.png\n");
  ASSERT_THAT(kinds(findings),
              ElementsAre("unreadable", "times_unknown", "one_frame", "without_patient"));
  EXPECT_THAT(findings[1].cases.at(0).exams, ElementsAre("A"));
  EXPECT_EQ(findings[1].cases.size(), 1u);
}

TEST_F(DryRun, DarkFramesForInstanceOf12BitsIn16) {
  cv::Mat deep(80, 96, CV_16UC1);
  cv::randu(deep, 0, 4096);
  cv::imwrite(scratch / "d0.png", deep);
  cv::imwrite(scratch / "d1.png", deep / 2);
  const std::string rows = "exam,path\nA,d0.png\nA,d1.png\nB,0.png\nB,1.png\n";
  const auto findings = look(rows);
  ASSERT_THAT(kinds(findings), ElementsAre("dark"));
  ASSERT_EQ(findings[0].cases.size(), 1u);
  EXPECT_THAT(findings[0].cases[0].exams, ElementsAre("A"));
  EXPECT_EQ(findings[0].cases[0].detail, "999 of 1000 levels are at most 16 of 255");
  settings.reader.window = frames::parse_window("2048,4096");
  EXPECT_THAT(look("exam,path\nA,d0.png\nA,d1.png\n"), IsEmpty());
}

TEST_F(DryRun, AFewBrightPixelsDoNotMakeADarkFrameBright) {
  cv::Mat marked(80, 96, CV_8UC1);
  cv::randu(marked, 0, 20);
  marked.row(0).colRange(0, 3) = 255;
  cv::imwrite(scratch / "m0.png", marked);
  cv::imwrite(scratch / "m1.png", marked * 0.9);
  EXPECT_THAT(kinds(look("exam,path\nA,m0.png\nA,m1.png\nB,0.png\nB,1.png\n")),
              ElementsAre("dark"));
}

// 20 frames of 2 × 5 pixels, as numpy.save writes them.
std::string array_of_floats(const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 2, 5), }";
  header.resize(118, ' ');
  return concat(std::string("\x93NUMPY\x01\0\x76\0", 10), header,
                std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
}

TEST_F(DryRun, FramesOfFloatsWithoutNumbersWhereverTheyAre) {
  std::vector<float> values(200);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::fill_n(values.begin() + 12 * 10, 10,
              std::nanf(""));  // not among the frames that are sampled
  values[13 * 10] = std::numeric_limits<float>::infinity();
  scratch.write("a.npy", array_of_floats(values));
  const auto findings = look_as_is("exam,path\nA,a.npy\n");
  ASSERT_THAT(kinds(findings), ElementsAre("lost_frames", "partly_finite_frames", "times_unknown",
                                           "without_patient"));
  EXPECT_EQ(findings[0].cases.at(0).detail,
            "1 frame: 'a.npy': none of the values is a finite number (all are NaN or infinite)");
  EXPECT_EQ(findings[1].cases.at(0).detail, "1 frame");
}

TEST_F(DryRun, MixedSizesWithinAnExam) {
  write_noise("large.png", 9, 120, 90);
  const auto findings = look("exam,path\nA,0.png\nA,large.png\nB,1.png\nB,2.png\n");
  ASSERT_THAT(kinds(findings), ElementsAre("mixed_sizes"));
  EXPECT_EQ(findings[0].cases.at(0).detail, "96×80, 120×90");
}

TEST_F(DryRun, ExamsOfOneFrame) {
  const auto findings = look("exam,path\nA,0.png\nB,1.png\nB,2.png\n");
  ASSERT_THAT(kinds(findings), ElementsAre("one_frame"));
  EXPECT_THAT(findings[0].cases.at(0).exams, ElementsAre("A"));
}

TEST_F(DryRun, MissingFramesAreCountedAndKeepTheirSlot) {
  const auto findings = look("exam,path\nA,0.png\nA,\nA,1.png\n");
  ASSERT_THAT(kinds(findings), ElementsAre("missing_frames"));
  EXPECT_EQ(surveyed.exams.at(0).frames, 3u);
  EXPECT_EQ(surveyed.exams.at(0).missing, 1u);
}

TEST_F(DryRun, PatientsOnBothSidesOfTheSplitAndExamsWithoutOne) {
  settings.reader.keep_patient_id = true;
  const auto findings = look(
      "exam,path,time,patient,split\nA,0.png,0,P 1,train\nA,1.png,2,P 1,train\n"
      "B,2.png,0,p1,val\nB,3.png,2,p1,val\nC,0.png,0,,test\nC,1.png,2,,test\n");
  ASSERT_THAT(kinds(findings),
              ElementsAre("patient_across_split", "without_patient", "same_image"));
  EXPECT_THAT(findings[0].cases.at(0).exams, ElementsAre("A", "B"));
  EXPECT_EQ(findings[0].cases[0].detail, "patient 'P 1' is in train, validation");
  EXPECT_THAT(findings[1].cases.at(0).exams, ElementsAre("C"));
  EXPECT_EQ(findings[1].cases[0].detail, "1 of 3 exams");
  const Report report{input, surveyed, findings};
  EXPECT_THAT(to_text(report), HasSubstr("1 patient, 1 exam without one"));
}

TEST_F(DryRun, TheSameImageOfTwoPatientsIsGraverThanOfOne) {
  std::filesystem::copy_file(scratch / "0.png", scratch / "copy.png");
  const std::string rows = "exam,path,patient\nA,0.png,p\nA,1.png,p\nB,copy.png,q\nB,2.png,q\n";
  const auto across = look(rows);
  ASSERT_THAT(kinds(across), ElementsAre("same_image_other_patient"));
  EXPECT_THAT(across[0].cases.at(0).exams, ElementsAre("A", "B"));
  const auto within = look("exam,path,patient\nA,0.png,p\nA,1.png,p\nB,copy.png,p\nB,2.png,p\n");
  EXPECT_THAT(kinds(within), ElementsAre("same_image"));
}

TEST_F(DryRun, TheSamePixelsInAnotherFormatAreTheSameImage) {
  cv::imwrite(scratch / "copy.tif", cv::imread(scratch / "0.png"));
  const auto findings = look("exam,path\nA,0.png\nA,1.png\nB,copy.tif\nB,2.png\n");
  ASSERT_THAT(kinds(findings), ElementsAre("same_image"));
  EXPECT_THAT(findings[0].cases.at(0).detail, HasSubstr("pixels"));
}

TEST_F(DryRun, OneFileNamedByTwoExams) {
  EXPECT_THAT(kinds(look("exam,path\nA,0.png\nA,1.png\nB,0.png\nB,2.png\n")),
              ElementsAre("same_image"));
}

TEST_F(DryRun, BlackFramesAreNotTheSameImage) {
  cv::imwrite(scratch / "black.png", cv::Mat(80, 96, CV_8UC3, cv::Scalar(0, 0, 0)));
  cv::imwrite(scratch / "black.tif", cv::Mat(80, 96, CV_8UC3, cv::Scalar(0, 0, 0)));
  EXPECT_THAT(look("exam,path\nA,0.png\nA,black.png\nB,black.tif\nB,1.png\n"), IsEmpty());
}

TEST_F(DryRun, BurnedInTextIsFoundAndACropRemovesIt) {
  for (int i = 0; i < 4; ++i) write_noise(concat("t", i, ".png"), i, 96, 80, true);
  const std::string rows = "exam,path\nA,t0.png\nA,t1.png\nA,t2.png\nA,t3.png\n";
  EXPECT_THAT(kinds(look(rows)), ElementsAre("bright_region"));
  settings.preprocessing.crop = *frames::parse_crop("0,30,96,50");
  EXPECT_THAT(look(rows), IsEmpty());
  settings.preprocessing.crop = *frames::parse_crop("0,30,96,90");
  EXPECT_THAT(kinds(look(rows)), ElementsAre("unreadable"));
}

TEST_F(DryRun, TheSameTextInExamsOfOneFrameEach) {
  std::string with = "exam,path\n", without = with;
  for (int i = 0; i < 5; ++i) {
    write_noise(concat("t", i, ".png"), i, 96, 80, true);
    write_noise(concat("n", i, ".png"), 20 + i);
    with += concat("E", i, ",t", i, ".png\n");
    without += concat("E", i, ",n", i, ".png\n");
  }
  EXPECT_THAT(kinds(look(with)), ElementsAre("one_frame", "bright_region_across_exams"));
  EXPECT_THAT(kinds(look(without)), ElementsAre("one_frame"));
}

TEST_F(DryRun, SelectionAndTilesAreCounted) {
  settings.selection.count = 1;
  settings.preprocessing.tiles = {48, 0};
  look(kOrderly);
  EXPECT_EQ(surveyed.exams.at(0).frames, 2u);
  EXPECT_EQ(surveyed.exams.at(0).selected, 1u);
  EXPECT_EQ(surveyed.exams.at(0).inputs, 4u);  // 96 × 80 in tiles of 48
}

TEST_F(DryRun, AStopRequestEndsIt) {
  request_stop();
  EXPECT_THROW(look(kOrderly), Interrupted);
}

TEST_F(DryRun, TheTableIsShortAndTheJsonComplete) {
  std::string rows = "exam,path,patient\n";
  for (int i = 0; i < 30; ++i) rows += concat("exam-", i, ",", i, "-gone.png,p", i, "\n");
  auto findings = look(rows);
  const Report report{input, surveyed, findings};
  const std::string text = to_text(report);
  EXPECT_THAT(text, HasSubstr("exam-19 "));
  EXPECT_THAT(text, Not(HasSubstr("exam-20 ")));
  EXPECT_THAT(text, HasSubstr("and 10 more exams"));
  EXPECT_THAT(text, HasSubstr("30 cannot be extracted"));
  const Json json = to_json(report);
  EXPECT_EQ(json["exams"].size(), 30u);
  EXPECT_EQ(json["totals"]["unreadable"], 30);
  EXPECT_EQ(json["findings"][0]["cases"].size(), 30u);
}

}  // namespace
}  // namespace coldframe::extract::dry_run
