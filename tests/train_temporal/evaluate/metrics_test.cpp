#include "train_temporal/evaluate/metric_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

ScoredExams binary(std::vector<double> score, std::vector<int> label, double threshold = 0.5) {
  ScoredExams exams;
  for (double s : score) {
    exams.predicted.push_back(1 - s);
    exams.predicted.push_back(s);
  }
  exams.label = std::move(label);
  exams.decision = decide(exams.predicted, 2, threshold);
  return exams;
}

TEST(Auroc, CountsPairsAndHalvesTies) {
  CounterRandom random({1});
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> score;
    std::vector<int> positive;
    for (int i = 0; i < 30; ++i) {
      score.push_back(static_cast<double>(random.below(8)) / 8);
      positive.push_back(i < 2 ? i : static_cast<int>(random.below(2)));
    }
    double won = 0, pairs = 0;
    for (std::size_t i = 0; i < 30; ++i) {
      for (std::size_t j = 0; j < 30; ++j) {
        if (!positive[i] || positive[j]) continue;
        won += score[i] > score[j] ? 1.0 : score[i] == score[j] ? 0.5 : 0.0;
        pairs += 1;
      }
    }
    EXPECT_DOUBLE_EQ(auroc(score, positive).value, won / pairs);
  }
}

TEST(Auroc, DoesNotDependOnTheOrderOfExams) {
  const std::vector<double> score = {0.1, 0.4, 0.4, 0.8, 0.4}, turned = {0.4, 0.8, 0.4, 0.4, 0.1};
  EXPECT_EQ(auroc(score, std::vector{0, 0, 1, 1, 0}).value,
            auroc(turned, std::vector{0, 1, 1, 0, 0}).value);
}

struct Undefined {
  const char* name;
  std::vector<double> score;
  std::vector<int> label;
  Metric metric;
  const char* reason;
};

TEST(Metrics, SayWhyTheyAreUndefined) {
  const double nan = std::nan("");
  const Undefined cases[] = {
      {"empty", {}, {}, metric_named("accuracy"), "no exams"},
      {"only negatives", {0.2, 0.7}, {0, 0}, metric_named("auroc"), "no positive exam"},
      {"only positives", {0.2, 0.7}, {1, 1}, metric_named("auroc"), "no negative exam"},
      {"AUPRC of positives alone", {0.2, 0.7}, {1, 1}, metric_named("auprc"), "no negative exam"},
      {"AUPRC without positives", {0.2, 0.7}, {0, 0}, metric_named("auprc"), "no positive exam"},
      {"sensitivity", {0.2, 0.7}, {0, 0}, metric_named("sensitivity"), "no positive exam"},
      {"specificity", {0.2, 0.7}, {1, 1}, metric_named("specificity"), "no negative exam"},
      {"balanced accuracy",
       {0.2, 0.7},
       {1, 1},
       metric_named("balanced_accuracy"),
       "no negative exam"},
      {"F1", {0.2, 0.3}, {0, 0}, metric_named("f1"), "a class that no exam has and none was given"},
      {"kappa",
       {0.2, 0.3},
       {0, 0},
       metric_named("quadratic_kappa"),
       "one class only, in labels and decisions"},
      {"separated",
       {0.2, 0.3, 0.8},
       {0, 0, 1},
       metric_named("calibration_slope"),
       "the scores separate the classes"},
      {"touching",
       {0.2, 0.3, 0.3},
       {0, 0, 1},
       metric_named("calibration_intercept"),
       "the scores separate the classes"},
      {"not a number",
       {0.2, nan},
       {0, 1},
       metric_named("auroc"),
       "a predicted probability is not a number"},
      {"not a number",
       {nan, nan},
       {0, 1},
       metric_named("log_loss"),
       "a predicted probability is not a number"},
  };
  for (const Undefined& one : cases) {
    const MetricValue figure = compute_metric(one.metric, binary(one.score, one.label));
    EXPECT_EQ(figure.undefined, one.reason) << one.name;
    EXPECT_TRUE(std::isnan(figure.value)) << one.name;
  }
}

TEST(Metrics, AreUndefinedWhereNumbersDifferByNothingThatCanBeSquared) {
  const std::vector<double> tiny = {1e-308, 2e-308, 3e-308}, predicted = {0.1, 0.2, 0.3};
  EXPECT_EQ(r_squared(tiny, predicted).undefined, "the true values do not differ but by rounding");
}

TEST(Metrics, NameTheClassThatIsAbsentFromManyClasses) {
  ScoredExams exams{3, {0.5, 0.3, 0.2, 0.1, 0.8, 0.1}, {0, 1}, {0, 1}};
  EXPECT_EQ(compute_metric(metric_named("auroc"), exams).undefined, "no exam of class number 2");
  EXPECT_EQ(compute_metric(metric_named("balanced_accuracy"), exams).undefined,
            "no exam of class number 2");
  EXPECT_EQ(compute_metric(metric_named("accuracy"), exams).value, 1.0);
}

TEST(Decide, TakesTheThresholdItself) {
  EXPECT_EQ(decide(std::vector{0.7, 0.3, 0.69, 0.31}, 2, 0.31), (std::vector{0, 1}));
}

TEST(Decide, TakesTheFirstOfEquallyProbableClasses) {
  EXPECT_EQ(decide(std::vector{0.4, 0.4, 0.2, 0.1, 0.2, 0.7}, 3, 0.9), (std::vector{0, 2}));
}

TEST(Curves, EndInTheCornersAndSkipNothing) {
  const std::vector<double> score = {0.9, 0.8, 0.8, 0.1};
  const std::vector<int> positive = {1, 0, 1, 0};
  const Curve roc = roc_curve(score, positive);
  EXPECT_EQ(roc.x, (std::vector{0.0, 0.0, 0.5, 1.0}));
  EXPECT_EQ(roc.y, (std::vector{0.0, 0.5, 1.0, 1.0}));
  EXPECT_TRUE(std::isinf(roc.threshold[0]));
  const Curve pr = precision_recall_curve(score, positive);
  EXPECT_EQ(pr.x, (std::vector{0.0, 0.5, 1.0, 1.0}));
  EXPECT_EQ(pr.y, (std::vector{1.0, 1.0, 2.0 / 3, 0.5}));
  EXPECT_TRUE(roc_curve(score, std::vector{1, 1, 1, 1}).x.empty());
}

TEST(CounterRandom, IsFlatAndDependsOnItsKeyAlone) {
  CounterRandom a({7, 1}), b({7, 1}), c({7, 2}), d({1, 7});
  std::vector<int> seen(10, 0);
  int same_c = 0, same_d = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t x = a.below(10);
    ASSERT_EQ(x, b.below(10));
    same_c += x == c.below(10);
    same_d += x == d.below(10);
    ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 10000, 500);
  EXPECT_NEAR(same_c, 10000, 500);
  EXPECT_NEAR(same_d, 10000, 500);
}

}  // namespace
}  // namespace coldframe::temporal
