// What a penalised regression says of rows that it cannot take. test_ridge.py has its figures.
#include "train_temporal/fit/ridge.h"

#include <gtest/gtest.h>

#include <cmath>
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

// A fold may lack a rare class.
TEST(Discriminants, AClassWithoutARowCountsAsHalfARow) {
  const torch::Tensor x = torch::randn({8, 3}, torch::kFloat64);
  const RowLabels two{RowLabels::Loss::kSoftmax, 3, {0, 1, 1, 0, 1, 0, 1, 0}};
  const Discriminants fit(x, two);
  EXPECT_TRUE(fit.coefficients(0.1).isfinite().all().item<bool>());
  EXPECT_DOUBLE_EQ(fit.log_shares()[2].item<double>(), std::log(0.5 / 8));
  EXPECT_DOUBLE_EQ(fit.log_shares()[0].item<double>(), std::log(0.5));
}

RowFolds in_turn(std::size_t rows, std::size_t count) {
  RowFolds folds{{}, count};
  for (std::size_t row = 0; row < rows; ++row) folds.of_row.push_back(row % count);
  return folds;
}

double gain(const torch::Tensor& x, const RowLabels& labels, const RowFolds& folds) {
  const LinearFit found = choose_fit(principal_axes(x), labels, folds);
  EXPECT_EQ(found.held_out.size(), labels.rows() * labels.outputs);
  EXPECT_TRUE(fit_chosen(principal_axes(x), labels, found).isfinite().all().item<bool>());
  return log_likelihood(labels, found.loss) -
         log_likelihood(labels, choose_fit(no_axes(x.size(0)), labels, folds).loss);
}

// Noise predicts neither a class that only one part has nor numbers that are all the same.
TEST(LinearFit, OddLabelsAndRowsGainNothing) {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({40, 4}, torch::kFloat64);
  RowLabels rare{RowLabels::Loss::kLogistic, 1, std::vector<double>(40, 0.0)};
  rare.value[0] = rare.value[5] = 1;
  EXPECT_LT(gain(x - x.mean(0), rare, in_turn(40, 5)), 1);
  const RowLabels same{RowLabels::Loss::kSquares, 1, std::vector<double>(40, 0.0)};
  EXPECT_EQ(gain(x - x.mean(0), same, in_turn(40, 5)), 0);
  const RowLabels one_class{RowLabels::Loss::kLogistic, 1, std::vector<double>(40, 1.0)};
  EXPECT_LT(gain(x - x.mean(0), one_class, in_turn(40, 5)), 0.1);
  EXPECT_LT(gain(x - x.mean(0), rare, in_turn(40, 1)), 0.1);  // nothing is left to fit
  rare.value[2] = rare.value[13] = 1;
  EXPECT_NEAR(gain(torch::zeros({40, 4}, torch::kFloat64), rare, in_turn(40, 5)), 0, 1e-9);
}

}  // namespace
}  // namespace coldframe::temporal
