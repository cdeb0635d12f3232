#include <gtest/gtest.h>

#include <cmath>

#include "extract/decode/window.h"

namespace coldframe::frames {
namespace {

Window percentiles(double low, double high) {
  Window window;
  window.kind = Window::Kind::kPercentiles;
  window.low = low;
  window.high = high;
  return window;
}

TEST(ValueSurvey, PercentilesInterpolateBetweenRanksAsNumpyDoes) {
  ValueSurvey survey;
  for (const double value : {-7.0, 1.0, 2.0, 100.0, 65535.0}) survey.add(value);
  // numpy.percentile([-7, 1, 2, 100, 65535], [0, 10, 50, 80, 100])
  EXPECT_DOUBLE_EQ(survey.range(percentiles(0, 10)).low, -7);
  EXPECT_NEAR(survey.range(percentiles(0, 10)).high, -3.8, 1e-12);
  EXPECT_DOUBLE_EQ(survey.range(percentiles(50, 80)).low, 2);
  EXPECT_NEAR(survey.range(percentiles(50, 80)).high, 13187.0, 1e-9);
  EXPECT_DOUBLE_EQ(survey.range(percentiles(50, 100)).high, 65535);
}

TEST(ValueSurvey, CountsWeighAndWhatIsNoNumberIsPassedOver) {
  ValueSurvey survey;
  survey.add(std::nan(""));
  survey.add(-INFINITY);
  EXPECT_TRUE(survey.empty());
  EXPECT_EQ(survey.range({}).high, 0);
  survey.add(-3, 99);
  survey.add(5, 1);
  EXPECT_EQ(survey.range(percentiles(1, 50)).high, -3);
  EXPECT_EQ(survey.range({}).low, -3);
  EXPECT_EQ(survey.range({}).high, 5);
}

TEST(ValueSurvey, ManyDifferentValuesKeepTheirPercentilesAndBoundTheMemory) {
  ValueSurvey survey;
  const int count = 3'000'000;
  for (int i = 0; i < count; ++i) survey.add((i - count / 2) * 1e-3 + 1e-7);
  const auto range = survey.range(percentiles(10, 90));
  EXPECT_NEAR(range.low, -1200, 1200 * 1e-4);
  EXPECT_NEAR(range.high, 1200, 1200 * 1e-4);
}

TEST(ValueSurvey, PartsAddUpToTheWhole) {
  ValueSurvey whole, first, second, sum;
  for (int i = 0; i < 300000; ++i) {
    const double value = std::sin(i) * std::exp(i % 50);
    whole.add(value);
    (i % 3 == 0 ? first : second).add(value);
  }
  sum.add(first);
  sum.add(second);
  const Window window{Window::Kind::kPercentiles, 0, 0, 3, 97};
  EXPECT_EQ(sum.range(window).low, whole.range(window).low);
  EXPECT_EQ(sum.range(window).high, whole.range(window).high);
  EXPECT_EQ(sum.range({}).high, whole.range({}).high);
}

}  // namespace
}  // namespace coldframe::frames
