// What a penalised regression says of rows that it cannot take. test_ridge.py has its figures.
#include "train_temporal/ridge/ridge.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

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

}  // namespace
}  // namespace coldframe::temporal
