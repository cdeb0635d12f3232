#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/calibration.h"

namespace coldframe::temporal {
namespace {

// Labels drawn with probability sigmoid(z); the logits given are z · factor.
struct Sample {
  std::vector<double> logits, score;
  std::vector<int> label;
};
Sample draw(std::size_t n, double factor, std::uint64_t seed) {
  CounterRandom random({seed});
  Sample sample;
  for (std::size_t i = 0; i < n; ++i) {
    const double z = 6 * random.uniform() - 3;
    sample.label.push_back(random.uniform() < 1 / (1 + std::exp(-z)));
    sample.logits.insert(sample.logits.end(), {0, z * factor});
    sample.score.push_back(1 / (1 + std::exp(-z * factor)));
  }
  return sample;
}

TEST(Temperature, UndoesOverconfidence) {
  for (double factor : {0.5, 1.0, 3.0}) {
    const Sample sample = draw(20000, factor, 5);
    EXPECT_NEAR(fit_temperature(sample.logits, 2, sample.label), factor, 0.1 * factor);
  }
}

TEST(Temperature, StaysModestOnASmallPartThatIsSeparated) {
  const std::vector<double> logits = {0, -2, 0, -1, 0, 1, 0, 3};
  const double t = fit_temperature(logits, 2, std::vector{0, 0, 1, 1});
  EXPECT_GT(t, 0.3);
  EXPECT_LT(t, 3.0);
}

TEST(Temperature, StaysInItsRangeWhenTheModelIsWrong) {
  const std::vector<double> logits = {0, 4, 0, 5, 0, -4, 0, -5};
  EXPECT_NEAR(fit_temperature(logits, 2, std::vector{0, 0, 1, 1}), 20.0, 1e-6);
}

TEST(Temperature, IsOneWhenThereIsNothingToLearnFrom) {
  const std::vector<double> logits = {0, 1, 0, 2}, equal = {0, 0, 0, 0}, broken = {0, NAN, 0, 1};
  EXPECT_EQ(fit_temperature({}, 2, {}), 1.0);
  EXPECT_EQ(fit_temperature(logits, 2, std::vector{1, 1}), 1.0);
  EXPECT_EQ(fit_temperature(equal, 2, std::vector{0, 1}), 1.0);
  EXPECT_EQ(fit_temperature(broken, 2, std::vector{0, 1}), 1.0);
}

TEST(Softmax, SurvivesLargeLogits) {
  const std::vector<double> p = softmax(std::vector{1000.0, 999.0, -1000.0}, 3, 1.0);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1.0, 1e-15);
  EXPECT_NEAR(p[1] / p[0], std::exp(-1.0), 1e-12);
}

TEST(YoudenThreshold, LiesHalfwayAndNearTheMiddle) {
  const Threshold best = youden_threshold(std::vector{0.1, 0.2, 0.6, 0.9}, std::vector{0, 0, 1, 1});
  EXPECT_DOUBLE_EQ(best.value, 0.4);
  EXPECT_DOUBLE_EQ(best.youden.value, 1.0);
  // Two thresholds reach 0.5: 0.3 and 0.75; the first is nearer to 0.5.
  const Threshold tied =
      youden_threshold(std::vector{0.1, 0.5, 0.55, 0.95}, std::vector{0, 1, 0, 1});
  EXPECT_DOUBLE_EQ(tied.value, 0.3);
  EXPECT_DOUBLE_EQ(tied.youden.value, 0.5);
}

TEST(YoudenThreshold, MaximisesOverAllThresholds) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Sample sample = draw(40, 1.5, seed);
    const auto youden = [&](double threshold) {
      double hit[2] = {0, 0}, count[2] = {0, 0};
      for (std::size_t i = 0; i < sample.label.size(); ++i) {
        hit[sample.label[i]] += sample.score[i] >= threshold;
        count[sample.label[i]] += 1;
      }
      return hit[1] / count[1] - hit[0] / count[0];
    };
    const Threshold best = youden_threshold(sample.score, sample.label);
    EXPECT_NEAR(youden(best.value), best.youden.value, 1e-12);
    for (double score : sample.score) EXPECT_LE(youden(score), best.youden.value + 1e-12);
  }
}

TEST(YoudenThreshold, FallsBackToOneHalf) {
  const Threshold one_class = youden_threshold(std::vector{0.1, 0.2}, std::vector{1, 1});
  EXPECT_EQ(one_class.value, 0.5);
  EXPECT_EQ(one_class.youden.undefined, "the validation part has one class only");
  const Threshold reversed = youden_threshold(std::vector{0.9, 0.1}, std::vector{0, 1});
  EXPECT_EQ(reversed.value, 0.5);
  EXPECT_EQ(reversed.youden.undefined, "no threshold is better than chance");
}

TEST(YoudenThreshold, SeparatesNeighbouringDoubles) {
  const double low = 0.7, high = std::nextafter(low, 1.0);
  const Threshold best = youden_threshold(std::vector{low, high}, std::vector{0, 1});
  EXPECT_GT(best.value, low);
  EXPECT_LE(best.value, high);
}

TEST(Reliability, PutsEveryExamIntoOneBin) {
  ScoredExams exams;
  exams.predicted = {1, 0, 0, 1, 0.5, 0.5, 1 - 1.0 / 15, 1.0 / 15};
  exams.label = {0, 1, 1, 0};
  const auto bins = reliability(exams);
  ASSERT_EQ(bins.size(), kReliabilityBins);
  EXPECT_EQ(bins.front().count, 1u);
  EXPECT_EQ(bins.back().count, 1u);  // p = 1 belongs to the last bin
  EXPECT_EQ(bins[7].count, 1u);
  EXPECT_EQ(bins[1].count, 1u);  // a lower edge belongs to its bin
}

TEST(Reliability, TakesTheWinningClassOfMany) {
  ScoredExams exams{3, {0.7, 0.2, 0.1, 0.1, 0.7, 0.2}, {0, 2}, {0, 1}};
  const auto bins = reliability(exams, 10);
  EXPECT_EQ(bins[6].count + bins[7].count, 2u);
  EXPECT_NEAR(expected_calibration_error(exams, 10).value, 0.2, 1e-12);
}

TEST(CalibrationLine, IsOneAndZeroForCalibratedScores) {
  const Sample sample = draw(50000, 1.0, 3);
  const CalibrationLine line = calibration_line(sample.score, sample.label);
  EXPECT_NEAR(line.slope.value, 1.0, 0.04);
  EXPECT_NEAR(line.intercept.value, 0.0, 0.04);
  const Sample sure = draw(50000, 4.0, 3);
  EXPECT_NEAR(calibration_line(sure.score, sure.label).slope.value, 0.25, 0.01);
}

TEST(CalibrationLine, ExistsForExtremeScoresThatOverlap) {
  const CalibrationLine line =
      calibration_line(std::vector{0.0, 1.0, 0.0, 1.0, 0.0, 1.0}, std::vector{0, 1, 0, 1, 1, 0});
  // Two of three right at either end: the fitted logit there is ± log 2.
  EXPECT_NEAR(line.slope.value, std::log(2.0) / (std::log(1 - 1e-7) - std::log(1e-7)), 1e-9);
  EXPECT_NEAR(line.intercept.value, 0.0, 1e-9);
}

}  // namespace
}  // namespace coldframe::temporal
