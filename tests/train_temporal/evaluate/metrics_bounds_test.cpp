#include "train_temporal/evaluate/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "train_temporal/evaluate/intervals.h"

namespace coldframe::temporal {
namespace {

TEST(Student, HasTheQuantilesOfTables) {
  EXPECT_NEAR(student_quantile(0.975, 1e9), 1.95996, 1e-4);
  EXPECT_NEAR(student_quantile(0.975, 30), 2.0423, 1e-3);
  EXPECT_NEAR(student_quantile(0.975, 5), 2.5706, 2e-3);
  EXPECT_NEAR(student_quantile(0.975, 2), 4.3027, 0.05);
}

TEST(ShareBounds, HoldTheShareWherePatientsAgree) {
  const Bounds bounds = share_bounds(0.6, {0, 9, 10}, 0.95);
  EXPECT_LT(bounds.low.value, 0.6);
  EXPECT_GT(bounds.high.value, 0.6);
}

// Losses of which few are large: the mean of those patients that were seen is mostly too low.
TEST(Bounds, OfErrorsReachFurtherUpwardsWhereFewPatientsMakeThem) {
  const auto arms = [](double skewness) {
    Spread spread{0.01, 1e6, 40};
    spread.skewness = skewness;
    const Bounds bounds = bounds_of(metric_named("log_loss"), 0.5, spread, 0.95);
    return std::pair(0.5 - bounds.low.value, bounds.high.value - 0.5);
  };
  EXPECT_NEAR(arms(0).first, 0.196, 1e-4);
  EXPECT_NEAR(arms(0).second, 0.196, 1e-4);
  // Hall 1992: 0.1 · 3 / g · (1 − (1 + g (∓1.96 − g / 6))^⅓) with g = 0.3.
  EXPECT_NEAR(arms(0.3).first, 0.16299, 1e-4);
  EXPECT_NEAR(arms(0.3).second, 0.26503, 1e-4);
  EXPECT_EQ(bounds_of(metric_named("brier"), 0.1, {0.01, 9, 10}, 0.95).low.value, 0.0);
}

// A mean of errors of which few are large: Hall 1992, with a skewness that is greater by 1 than
// what 12 patients show, G1 of Joanes and Gill 1998.
TEST(Summarize, TakesErrorsToBeMoreSkewedThanFewPatientsShow) {
  const std::vector<double> errors = {1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 10};
  FoldScores fold;
  fold.exams.width = 1;
  fold.exams.scale = Scale::kNumber;
  for (std::size_t p = 0; p < errors.size(); ++p) {
    fold.exams.predicted.push_back(errors[p] * (p % 2 ? 1 : -1));
    fold.exams.number.push_back(0);
    fold.exams.label.push_back(0);
    fold.exams.decision.push_back(0);
    fold.patient.push_back(p);
  }
  const double n = 12, mean = 3;
  double squares = 0, cubes = 0;
  for (double error : errors) {
    squares += std::pow(error - mean, 2);
    cubes += std::pow(error - mean, 3);
  }
  const double g1 = cubes / n / std::pow(squares / n, 1.5) * std::sqrt(n * (n - 1)) / (n - 2);
  const double deviation = std::sqrt(squares / (n - 1) / n), g = (g1 + 1) / std::sqrt(n);
  const auto reach = [&](double t) {
    return deviation * 3 / g * (std::cbrt(1 + g * (t - g / 6)) - 1);
  };
  const auto summary = summarize(leave_out_patients(std::vector{fold}));
  const auto mae = std::ranges::find(summary, metric_named("mae"), &MetricSummary::metric);
  const double t = student_quantile(0.975, n - 1);
  EXPECT_NEAR(mae->pooled.low.value, mean - reach(t), 1e-9);
  EXPECT_NEAR(mae->pooled.high.value, mean - reach(-t), 1e-9);
}

// One patient of forty is out of order, and little: that variance is no measure of the others'.
TEST(Bounds, OfSharesAreModeratedWhereFewPatientsDecideTheVariance) {
  const auto low = [](double freedom) {
    Spread spread{1e-6, 1e6, 20};
    spread.trials = 40;
    spread.freedom_of_variance = freedom;
    return bounds_of(metric_named("auroc"), 0.998, spread, 0.95).low.value;
  };
  EXPECT_NEAR(low(1e9), share_bounds(0.998, {1e-6, 1e6, 20}, 0.95).low.value, 1e-6);
  EXPECT_LT(low(2), 0.97);
  EXPECT_GT(low(2), share_bounds(0.998, {0.998 * 0.002 / 40, 1e6, 20}, 0.95).low.value);
  Spread wide{0.01, 1e6, 20};  // wider than the trials say: as it is
  wide.trials = 40;
  EXPECT_EQ(bounds_of(metric_named("auroc"), 0.8, wide, 0.95).low.value,
            share_bounds(0.8, {0.01, 1e6, 20}, 0.95).low.value);
}

// An RMSE of 10.5 is not 0 in any cohort of numbers: patients who make up most of the error are too
// few, and the interval says so.
TEST(Bounds, OfErrorsOfNumbersNeverReachNone) {
  const Spread few{64, 8, 9};
  for (const Metric metric : {metric_named("rmse"), metric_named("mae")}) {
    const Bounds bounds = bounds_of(metric, 10.5, few, 0.95);
    EXPECT_FALSE(bounds.low.defined());
    EXPECT_NE(bounds.low.undefined.find("a few patients make up most"), std::string::npos);
    EXPECT_GT(bounds_of(metric, 10.5, {1, 8, 9}, 0.95).low.value, 0);
  }
}

}  // namespace
}  // namespace coldframe::temporal
