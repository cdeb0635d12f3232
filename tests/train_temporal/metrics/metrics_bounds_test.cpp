#include "train_temporal/metrics/bounds.h"

#include <gtest/gtest.h>

#include <utility>

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
    const Bounds bounds = bounds_of(Metric::kLogLoss, 0.5, spread, 0.95);
    return std::pair(0.5 - bounds.low.value, bounds.high.value - 0.5);
  };
  EXPECT_NEAR(arms(0).first, 0.196, 1e-4);
  EXPECT_NEAR(arms(0).second, 0.196, 1e-4);
  // Hall 1992: 0.1 · 3 / g · (1 − (1 + g (∓1.96 − g / 6))^⅓) with g = 0.3.
  EXPECT_NEAR(arms(0.3).first, 0.16299, 1e-4);
  EXPECT_NEAR(arms(0.3).second, 0.26503, 1e-4);
  EXPECT_EQ(bounds_of(Metric::kBrier, 0.1, {0.01, 9, 10}, 0.95).low.value, 0.0);
}

// One patient of forty is out of order, and little: his variance is no measure of the others'.
TEST(Bounds, OfSharesAreModeratedWhereFewPatientsDecideTheVariance) {
  const auto low = [](double freedom) {
    Spread spread{1e-6, 1e6, 20};
    spread.trials = 40;
    spread.freedom_of_variance = freedom;
    return bounds_of(Metric::kAuroc, 0.998, spread, 0.95).low.value;
  };
  EXPECT_NEAR(low(1e9), share_bounds(0.998, {1e-6, 1e6, 20}, 0.95).low.value, 1e-6);
  EXPECT_LT(low(2), 0.97);
  EXPECT_GT(low(2), share_bounds(0.998, {0.998 * 0.002 / 40, 1e6, 20}, 0.95).low.value);
  Spread wide{0.01, 1e6, 20};  // wider than the trials say: as it is
  wide.trials = 40;
  EXPECT_EQ(bounds_of(Metric::kAuroc, 0.8, wide, 0.95).low.value,
            share_bounds(0.8, {0.01, 1e6, 20}, 0.95).low.value);
}

}  // namespace
}  // namespace coldframe::temporal
