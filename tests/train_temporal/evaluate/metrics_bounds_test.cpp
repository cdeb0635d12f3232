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
  // Where few patients make most of the error, the inverse of the cubic would reach 8 errors far.
  EXPECT_LT(arms(0.499).second, 3.1 * 0.1);
  EXPECT_GT(arms(0.499).second, arms(0.3).second);
  EXPECT_EQ(arms(0.499), arms(0.9));
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
  const double t = student_quantile(0.975, n - 1);
  const double deviation = std::sqrt(squares / (n - 1) / n);
  const double g = std::min((g1 + 1) / std::sqrt(n), 0.7 / t);
  const auto reach = [&](double z) {
    return deviation * 3 / g * (std::cbrt(1 + g * (z - g / 6)) - 1);
  };
  const auto summary = summarize(leave_out_patients(std::vector{fold}));
  const auto mae = std::ranges::find(summary, metric_named("mae"), &MetricSummary::metric);
  EXPECT_NEAR(mae->pooled.low.value, mean - reach(t), 1e-9);
  EXPECT_NEAR(mae->pooled.high.value, mean - reach(-t), 1e-9);
}

// One patient of forty is out of order, and little: that variance is no measure of the others'.
TEST(Bounds, OfSharesAreModeratedWhereFewPatientsDecideTheVariance) {
  const auto low = [](double freedom) {
    Spread spread{1e-6, 1e6, 200};
    spread.trials = 400;
    spread.freedom_of_variance = freedom;
    return bounds_of(metric_named("auroc"), 0.98, spread, 0.95).low.value;
  };
  EXPECT_NEAR(low(1e9), share_bounds(0.98, {1e-6, 1e6, 200}, 0.95).low.value, 1e-6);
  EXPECT_LT(low(2), low(1e9) - 0.005);
  EXPECT_GT(low(2), share_bounds(0.98, {0.98 * 0.02 / 400, 1e6, 200}, 0.95).low.value);
  Spread wide{0.01, 1e6, 20};  // wider than the trials say: as it is
  wide.trials = 40;
  EXPECT_EQ(bounds_of(metric_named("auroc"), 0.8, wide, 0.95).low.value,
            share_bounds(0.8, {0.01, 1e6, 20}, 0.95).low.value);
}

// From 0 to 1 says nothing.
TEST(Bounds, AreNoneWhereEveryValueIsPossible) {
  Spread few{5000, 2, 4};
  const Bounds bounds = bounds_of(metric_named("kappa"), 0.1, few, 0.95);
  EXPECT_EQ(bounds.low.undefined, "too small a sample to bound: 4 patients");
  EXPECT_FALSE(bounds.high.defined());
  few.units = 1;
  EXPECT_EQ(bounds_of(metric_named("kappa"), 0.1, few, 0.95).low.undefined,
            "too small a sample to bound: 1 patient, 4 needed");
  few.units = 0;
  few.are_pairs = true;
  EXPECT_EQ(bounds_of(metric_named("auroc"), 0.1, few, 0.95).low.undefined,
            "too small a sample to bound: no pair of patients, 4 needed");
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

// Five classes of which one is rare: its figure alone may be as low as so many patients leave it.
TEST(Bounds, OfAMeanOfClassesComeFromTheMean) {
  EXPECT_NEAR(least_mean({6}, 0.025), std::pow(0.025, 1.0 / 6), 1e-12);
  EXPECT_NEAR(least_mean({6, 60, 60, 60, 60}, 0.025), (4 + std::pow(0.025, 1.0 / 6)) / 5, 1e-12);
  // Of two alike, both fall short by the same.
  EXPECT_NEAR(least_mean({10, 10}, 0.025), std::pow(0.025, 1.0 / 20), 1e-12);
  // No other shares that succeed as often have a lower mean.
  const std::vector<double> units = {4, 7, 12};
  const double least = least_mean(units, 0.025);
  for (double a = 0.02; a < 1; a += 0.02) {
    for (double b = 0.02; b < 1; b += 0.02) {
      const double c = std::pow(0.025 / std::pow(a, 4) / std::pow(b, 7), 1.0 / 12);
      if (c > 1) continue;
      EXPECT_GE((a + b + c) / 3, least - 1e-9);
    }
  }
}

TEST(DifferenceBounds, AreStudentsWhereNothingIsSkewedAndStayWithinWhatIsPossible) {
  Spread patients{0.0004, 30, 40};
  patients.freedom_of_variance = 12;
  const Bounds bounds = difference_bounds(0.01, patients, {}, 1, 0.95);
  EXPECT_NEAR(bounds.high.value - 0.01, 0.02 * student_quantile(0.975, 12), 1e-12);
  EXPECT_NEAR(0.01 - bounds.low.value, 0.02 * student_quantile(0.975, 12), 1e-12);
  const Bounds with_fits = difference_bounds(0.01, patients, {0.0003, 4}, 1, 0.95);
  const double freedom = 0.0007 * 0.0007 / (0.0004 * 0.0004 / 12 + 0.0003 * 0.0003 / 4);
  EXPECT_NEAR(with_fits.high.value - 0.01, std::sqrt(0.0007) * student_quantile(0.975, freedom),
              1e-12);
  Spread wide{0.2, 4, 8};
  wide.freedom_of_variance = 4;
  EXPECT_EQ(difference_bounds(0.6, wide, {}, 1, 0.95).high.value, 1);
  patients.skewness = 0.5;
  const Bounds skewed = difference_bounds(0.01, patients, {}, 1, 0.95);
  EXPECT_EQ(skewed.low.value, bounds.low.value);
  EXPECT_GT(skewed.high.value, bounds.high.value);
  patients.skewness = 0.6;  // by which the cubic's own inverse reaches eight errors far
  EXPECT_EQ(difference_bounds(0.01, patients, {}, 1, 0.95).high.value, skewed.high.value);
  EXPECT_LT(skewed.high.value - 0.01, 4 * 0.02);
}

}  // namespace
}  // namespace coldframe::temporal
