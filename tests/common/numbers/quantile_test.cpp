#include "common/numbers/quantile.h"

#include <gtest/gtest.h>

namespace coldframe {
namespace {

TEST(Quantile, InterpolatesBetweenNeighboursAsNumpyDoes) {
  const std::vector<double> sorted{1, 2, 4, 8};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 1), 8);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 6.8);
  EXPECT_EQ(quantile({3}, 0.7), 3);
}

TEST(Quantile, TheMedianIsTheMiddleOrBetweenTheTwoMiddleOnes) {
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
}

}  // namespace
}  // namespace coldframe
