// What a penalised regression says of rows that it cannot take. test_ridge.py has its figures.
#include "train_temporal/ridge/ridge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "train_temporal/ridge/discriminants.h"

namespace coldframe::temporal {
namespace {

TEST(Ridge, RefusesRowsThatHoldNoNumber) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    torch::Tensor x = torch::zeros({6, 3}, torch::kFloat64);
    EXPECT_NO_THROW(principal_axes(x));
    x[4][1] = value;
    EXPECT_THROW(principal_axes(x), std::invalid_argument);
  }
}

// A row without a label for an output says nothing of it.
TEST(Ridge, RowsWithoutALabelTellNothing) {
  const torch::Tensor x =
      torch::tensor({{1.0, 0.0}, {-1.0, 0.5}, {0.5, -1.0}, {-0.5, 0.5}}, torch::kFloat64);
  const double none = std::numeric_limits<double>::quiet_NaN();
  RowLabels labels{RowLabels::Loss::kSquares, 1, {1, -1, none, 0}};
  std::vector<double> z = {0.3, 0.1, 7, 0.2}, gradient(4);
  const double loss = loss_of(labels, z, gradient);
  z[2] = -5;
  EXPECT_EQ(loss, loss_of(labels, z, gradient));
  EXPECT_EQ(gradient[2], 0);
  const PrincipalAxes axes = principal_axes(x);
  EXPECT_TRUE(fit_ridge(axes, labels, 0.1).isfinite().all().item<bool>());
}

// A fold may lack a rare class.
TEST(Discriminants, AClassWithoutARowCountsAsHalfARow) {
  const torch::Tensor x = torch::randn({8, 3}, torch::kFloat64);
  const RowLabels two{RowLabels::Loss::kSoftmax, 3, {0, 1, 1, 0, 1, 0, 1, 0}};
  const Discriminants fit(x, two);
  EXPECT_TRUE(fit.coefficients(0.1).isfinite().all().item<bool>());
  EXPECT_DOUBLE_EQ(fit.log_shares()[2].item<double>(), std::log(0.5 / 8));
  EXPECT_DOUBLE_EQ(fit.log_shares()[0].item<double>(), std::log(0.5));
}

}  // namespace
}  // namespace coldframe::temporal
