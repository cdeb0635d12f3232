#include "train_temporal/evaluate/classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/calibration.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kKinds = 4;

// Patients of two exams each in folds of all classes, of which the last is rare; a model tells them
// apart by `skill`.
std::vector<FoldScores> cohort_of_classes(double skill, std::uint64_t seed = 1) {
  std::vector<FoldScores> folds;
  for (std::size_t fold = 0; fold < 4; ++fold) {
    FoldScores& one = folds.emplace_back();
    one.fold = fold;
    one.exams.width = kKinds;
    std::vector<double> logits;
    for (std::size_t p = 0; p < 20; ++p) {
      const std::size_t of_class = p < 2 ? kKinds - 1 : p % (kKinds - 1);
      for (std::size_t exam = 0; exam < 2; ++exam) {
        CounterRandom random({seed, fold, p, exam});
        for (std::size_t c = 0; c < kKinds; ++c)
          logits.push_back(4 * random.uniform() + (c == of_class ? skill : 0));
        one.exams.label.push_back(static_cast<int>(of_class));
        one.patient.push_back(fold * 20 + p);
      }
    }
    one.exams.predicted = softmax(logits, kKinds);
    one.exams.decision = decide(one.exams.predicted, kKinds, 0.5);
  }
  return folds;
}

const MetricSummary& figure(const std::vector<MetricSummary>& figures, std::string_view key) {
  return *std::ranges::find(figures, metric_named(key), &MetricSummary::metric);
}

std::vector<FiguresOfClass> figures_of(const std::vector<FoldScores>& folds) {
  return figures_of_classes(folds, summarize(leave_out_patients(folds)), 0.95);
}

void expect_same(const Estimate& a, const Estimate& b) {
  ASSERT_TRUE(a.low.defined() && b.low.defined());
  EXPECT_EQ(a.value.value, b.value.value);
  EXPECT_EQ(a.low.value, b.low.value);
  EXPECT_EQ(a.high.value, b.high.value);
  EXPECT_EQ(a.claim_low, b.claim_low);
}

// The macro figure of a target is the mean of the classes' where each fold holds them all.
TEST(Classes, HaveTheMacroFigureAsTheirMean) {
  const auto folds = cohort_of_classes(1);
  const auto all = summarize(leave_out_patients(folds));
  const auto classes = figures_of(folds);
  ASSERT_EQ(classes.size(), kKinds);
  for (const auto& [macro, of_class] :
       {std::pair("auroc", "auroc"), std::pair("auprc", "auprc"), std::pair("f1", "f1"),
        std::pair("balanced_accuracy", "recall")}) {
    double mean = 0;
    for (const FiguresOfClass& one : classes)
      mean += figure(one.summary, of_class).primary().value.value / kKinds;
    EXPECT_NEAR(figure(all, macro).primary().value.value, mean, 1e-12) << macro;
  }
  EXPECT_EQ(classes[kKinds - 1].exams, 16u);
  EXPECT_EQ(classes[kKinds - 1].patients, 8u);
}

// The same exams as a target of two classes.
TEST(Classes, HaveTheIntervalsOfABinaryTarget) {
  const auto folds = cohort_of_classes(1);
  const auto classes = figures_of(folds);
  for (std::size_t c = 0; c < kKinds; ++c) {
    std::vector<FoldScores> binary;
    for (const FoldScores& fold : folds) {
      FoldScores& one = binary.emplace_back(FoldScores{fold.repeat, fold.fold, {}, fold.patient});
      for (std::size_t i = 0; i < fold.exams.size(); ++i) {
        const double p = fold.exams.score(i, c);
        one.exams.predicted.insert(one.exams.predicted.end(), {1 - p, p});
        one.exams.label.push_back(fold.exams.label[i] == static_cast<int>(c));
        one.exams.decision.push_back(fold.exams.decision[i] == static_cast<int>(c));
      }
    }
    const auto headline = summarize(leave_out_patients(binary));
    const auto& own = classes[c].summary;
    expect_same(figure(own, "auroc").primary(), figure(headline, "auroc").primary());
    expect_same(figure(own, "recall").primary(), figure(headline, "sensitivity").primary());
    expect_same(figure(own, "f1").primary(), figure(headline, "f1").primary());
  }
}

TEST(Classes, HaveIntervalsThatHoldTheirFigures) {
  std::size_t bounded = 0;
  for (const double skill : {0.0, 1.0, 2.5, 9.0}) {
    for (const FiguresOfClass& one : figures_of(cohort_of_classes(skill, 7))) {
      for (const MetricSummary& each : one.summary) {
        const Estimate& estimate = each.primary();
        if (!estimate.low.defined()) continue;
        ++bounded;
        EXPECT_LE(0, estimate.low.value) << each.metric->key;
        EXPECT_LE(estimate.low.value, estimate.value.value) << each.metric->key;
        EXPECT_LE(estimate.value.value, estimate.high.value) << each.metric->key;
        EXPECT_LE(estimate.high.value, 1) << each.metric->key;
        EXPECT_LT(estimate.low.value, estimate.high.value) << each.metric->key;
      }
    }
  }
  EXPECT_GT(bounded, 60u);
}

// A fold without the class is left out of its mean, and of that of no other class.
TEST(Classes, AreAveragedOverTheFoldsThatHoldThem) {
  auto folds = cohort_of_classes(1);
  std::vector<std::size_t> left, patients;
  for (std::size_t i = 0; i < folds[0].exams.size(); ++i)
    if (folds[0].exams.label[i] != kKinds - 1) left.push_back(i);
  for (const std::size_t i : left) patients.push_back(folds[0].patient[i]);
  folds[0].exams = exams_at(folds[0].exams, left);
  folds[0].patient = patients;
  const auto classes = figures_of(folds);
  const MetricSummary& rare = figure(classes[kKinds - 1].summary, "auroc");
  EXPECT_EQ(rare.folds_with_it(), 3u);
  EXPECT_EQ(figure(classes[0].summary, "auroc").folds_with_it(), 4u);
  double mean = 0;
  for (std::size_t f = 1; f < 4; ++f) {
    const OneVsRest rest = one_vs_rest(folds[f].exams, kKinds - 1);
    mean += auroc(rest.score, rest.positive).value / 3;
  }
  EXPECT_NEAR(rare.primary().value.value, mean, 1e-12);
}

// Where most folds lack a class, the headline ranks all exams together, and so do the classes.
TEST(Classes, AreRankedAsTheHeadlineIs) {
  auto folds = cohort_of_classes(1);
  for (std::size_t f = 0; f < 3; ++f)
    for (int& label : folds[f].exams.label) label = label == kKinds - 1 ? 0 : label;
  const auto all = summarize(leave_out_patients(folds));
  ASSERT_FALSE(figure(all, "auroc").by_fold);
  double mean = 0;
  for (const FiguresOfClass& one : figures_of(folds)) {
    EXPECT_FALSE(figure(one.summary, "auroc").by_fold);
    mean += figure(one.summary, "auroc").primary().value.value / kKinds;
  }
  EXPECT_NEAR(figure(all, "auroc").primary().value.value, mean, 1e-12);
}

// A class that is decided for few patients, rightly, has a precision that so few patients bound,
// however many have the class.
TEST(Classes, HaveAPrecisionThatThePatientsDecidedForBound) {
  auto folds = cohort_of_classes(1);
  std::size_t kept = 0;
  for (FoldScores& fold : folds) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      const bool decides = fold.exams.label[i] == 0 && kept < 10;
      kept += decides;  // five patients of two exams
      fold.exams.decision[i] = decides ? 0 : 1;
    }
  }
  const auto classes = figures_of(folds);
  const Estimate& few = figure(classes[0].summary, "precision").primary();
  ASSERT_EQ(few.value.value, 1);
  EXPECT_NEAR(few.low.value, std::pow(0.025, 1.0 / 5), 1e-12);
  EXPECT_EQ(few.high.value, 1);
  const MetricValue& never = figure(classes[2].summary, "precision").primary().value;
  EXPECT_EQ(never.undefined, "never decided");
}

TEST(Titles, SayWhatIsMacro) {
  EXPECT_EQ(title_of(metric_named("auroc"), 2), "AUROC");
  EXPECT_EQ(title_of(metric_named("auroc"), 3), "macro AUROC");
  EXPECT_EQ(title_of(metric_named("f1"), 4), "macro F1");
  EXPECT_EQ(title_of(metric_named("balanced_accuracy"), 4), "Balanced accuracy");
  EXPECT_EQ(title_of(metric_named("accuracy"), 4), "Accuracy");
}

}  // namespace
}  // namespace coldframe::temporal
