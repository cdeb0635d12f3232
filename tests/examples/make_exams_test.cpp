#include "examples/make_exams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "common/cli/error.h"
#include "common/files/csv.h"

namespace coldframe::examples {
namespace {

MakeExamsOptions small_exams(std::uint64_t seed = 1) {
  MakeExamsOptions options;
  options.size = 64;
  options.seed = seed;
  return options;
}

bool equal(const SyntheticExam& a, const SyntheticExam& b) {
  if (a.id != b.id || a.label != b.label || a.time_s != b.time_s) return false;
  for (std::size_t i = 0; i < a.frames.size(); ++i)
    if (cv::norm(a.frames[i], b.frames[i], cv::NORM_INF) != 0) return false;
  return a.frames.size() == b.frames.size();
}

// Tells how well `score` ranks exams of label 1 above those of label 0.
double auroc(const std::vector<double>& score, const std::vector<int>& label) {
  double wins = 0, pairs = 0;
  for (std::size_t i = 0; i < score.size(); ++i)
    for (std::size_t j = 0; j < score.size(); ++j)
      if (label[i] == 1 && label[j] == 0) {
        wins += score[i] > score[j] ? 1.0 : score[i] == score[j] ? 0.5 : 0.0;
        ++pairs;
      }
  return wins / pairs;
}

struct Trace {
  std::vector<double> mean, deviation;  // [T] of the pixels of each frame
};

Trace trace_of(const SyntheticExam& exam) {
  Trace trace;
  for (const cv::Mat& frame : exam.frames) {
    cv::Scalar mean, deviation;
    cv::meanStdDev(frame, mean, deviation);
    trace.mean.push_back(mean[0]);
    trace.deviation.push_back(deviation[0]);
  }
  return trace;
}

double average(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The signed area that (brightness, contrast) encircles: its sign is the direction of the passage.
double encircled_area(const Trace& trace) {
  const double mean = average(trace.mean), deviation = average(trace.deviation);
  double area = 0;
  for (std::size_t i = 0; i + 1 < trace.mean.size(); ++i)
    area += (trace.mean[i] - mean) * (trace.deviation[i + 1] - deviation) -
            (trace.mean[i + 1] - mean) * (trace.deviation[i] - deviation);
  return area;
}

class ManyExams : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (int number = 0; number < 400; ++number) {
      const SyntheticExam exam = make_exam(small_exams(), number);
      traces.push_back(trace_of(exam));
      labels.push_back(exam.label);
    }
  }
  static inline std::vector<Trace> traces;
  static inline std::vector<int> labels;
};

TEST_F(ManyExams, OrderOfTheFramesTellsTheLabel) {
  std::vector<double> areas;
  for (const Trace& trace : traces) areas.push_back(encircled_area(trace));
  const double ranked = auroc(areas, labels);
  EXPECT_GT(std::max(ranked, 1 - ranked), 0.95);
}

// Four standard deviations of a chance AUROC of 200 against 200 exams are 0.116.
TEST_F(ManyExams, NoSingleFrameTellsTheLabel) {
  for (std::size_t slot = 0; slot < 12; ++slot) {
    std::vector<double> mean, deviation;
    for (const Trace& trace : traces) {
      mean.push_back(trace.mean[slot]);
      deviation.push_back(trace.deviation[slot]);
    }
    EXPECT_NEAR(auroc(mean, labels), 0.5, 0.116) << "brightness of frame " << slot;
    EXPECT_NEAR(auroc(deviation, labels), 0.5, 0.116) << "contrast of frame " << slot;
  }
}

TEST_F(ManyExams, TheFramesTogetherDoNotTellTheLabel) {
  std::vector<double> mean, deviation;
  for (const Trace& trace : traces) {
    mean.push_back(average(trace.mean));
    deviation.push_back(average(trace.deviation));
  }
  EXPECT_NEAR(auroc(mean, labels), 0.5, 0.116);
  EXPECT_NEAR(auroc(deviation, labels), 0.5, 0.116);
}

TEST(MakeExam, IsAFunctionOfSeedAndNumber) {
  EXPECT_TRUE(equal(make_exam(small_exams(), 7), make_exam(small_exams(), 7)));
  EXPECT_FALSE(equal(make_exam(small_exams(1), 7), make_exam(small_exams(2), 7)));
  EXPECT_FALSE(equal(make_exam(small_exams(), 7), make_exam(small_exams(), 8)));
}

TEST(MakeExam, TimesAreUnevenAndIncrease) {
  const std::vector<double> times = make_exam(small_exams(), 3).time_s;
  ASSERT_EQ(times.size(), 12u);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GT(times[i], times[i - 1]);
  EXPECT_GT(times[11] - times[10], 10 * (times[1] - times[0]));
}

TEST(WriteExams, ManifestNamesEveryFrameAndLabelsAgreeWithinAPatient) {
  MakeExamsOptions options = small_exams();
  options.exams = 20;
  options.frames = 3;
  options.out = std::filesystem::path(::testing::TempDir()) / "coldframe_write_exams";
  std::filesystem::remove_all(options.out);
  int made = 0;
  write_exams(options, [&] { ++made; });
  EXPECT_EQ(made, 20);

  const CsvTable table = read_csv(options.out / "exams.csv");
  EXPECT_THAT(table.header, ::testing::ElementsAre("exam", "path", "time", "patient", "label"));
  ASSERT_EQ(table.rows.size(), 60u);
  std::map<std::string, std::set<std::string>> exams_of, labels_of;
  for (const auto& row : table.rows) {
    EXPECT_TRUE(std::filesystem::exists(options.out / row[1])) << row[1];
    exams_of[row[3]].insert(row[0]);
    labels_of[row[3]].insert(row[4]);
  }
  EXPECT_EQ(exams_of.size(), 16u);
  EXPECT_EQ(exams_of["P0003"].size(), 2u);
  int positive = 0;
  for (const auto& [patient, labels] : labels_of) {
    EXPECT_EQ(labels.size(), 1u) << patient;
    positive += labels.contains("1");
  }
  EXPECT_EQ(positive, 8);
  std::filesystem::remove_all(options.out);
}

TEST(WriteExams, RefusesWhatItCannotMake) {
  struct Case {
    int exams, frames, size;
    const char* named;
  };
  for (const Case& c :
       {Case{0, 12, 64, "--exams"}, Case{10001, 12, 64, "--exams"}, Case{5, 1, 64, "--frames"},
        Case{5, 100, 64, "--frames"}, Case{5, 12, 8, "--size"}}) {
    MakeExamsOptions options;
    options.out = ::testing::TempDir();
    options.exams = c.exams, options.frames = c.frames, options.size = c.size;
    try {
      write_exams(options, [] {});
      ADD_FAILURE() << "not refused: " << c.named;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(c.named));
    }
  }
  EXPECT_THROW(write_exams(MakeExamsOptions{}, [] {}), ConfigError);
}

}  // namespace
}  // namespace coldframe::examples
