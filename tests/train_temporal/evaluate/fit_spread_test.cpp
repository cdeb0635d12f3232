// The spread between fits, by hand.
#include "train_temporal/evaluate/intervals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/bounds.h"

namespace coldframe::temporal {
namespace {

// Forty patients in each fold, of whom those of class 1 score higher by `shift` in the mean.
std::vector<FoldScores> fit(std::uint64_t seed, double shift, std::size_t repeats = 1) {
  std::vector<FoldScores> folds;
  for (std::size_t part = 0; part < 2 * repeats; ++part) {
    FoldScores& one = folds.emplace_back();
    one.repeat = part / 2;
    one.fold = part % 2;
    for (std::size_t p = 0; p < 40; ++p) {
      const int label = static_cast<int>(p % 2);
      const double score =
          (CounterRandom({seed, one.repeat, one.fold, p}).uniform() + shift * label) / (1 + shift);
      one.exams.predicted.insert(one.exams.predicted.end(), {1 - score, score});
      one.exams.label.push_back(label);
      one.exams.decision.push_back(score > 0.5);
      one.patient.push_back(40 * one.fold + p);
    }
  }
  return folds;
}

double auroc_of(const FoldScores& fold) {
  return compute_metric(metric_named("auroc"), fold.exams).value;
}

struct Compared {
  MetricTable table;
  std::vector<MetricOfFits> figures;
};

Compared compared(const std::vector<FoldScores>& folds,
                  const std::vector<std::vector<FoldScores>>& fits) {
  Compared one{leave_out_patients(folds), {}};
  one.figures = figures_of_fits(one.table, folds, fits);
  return one;
}

Estimate difference(const Compared& a, const Compared& b, bool with_fits) {
  auto all = paired_differences(a.table, b.table);
  if (with_fits) include_fits(all, a.figures, b.figures, 0.95);
  return all.front().mean_over_folds;
}

double reach(double error, double freedom, double level) {
  return error * student_quantile((1 + level) / 2, freedom);
}

TEST(FitSpread, IsThatOfTheSeedsOfEachFold) {
  const std::vector<std::vector<FoldScores>> a = {fit(1, 0.5), fit(2, 0.3), fit(3, 0.9)},
                                             b = {fit(4, 0.1), fit(5, 0.1), fit(6, 0)};
  double variance = 0, of_variance = 0;
  for (std::size_t fold = 0; fold < 2; ++fold) {
    double ahead[3], mean = 0, squares = 0;
    for (std::size_t s = 0; s < 3; ++s) {
      ahead[s] = auroc_of(a[s][fold]) - auroc_of(b[s][fold]);
      mean += ahead[s] / 3;
    }
    for (const double one : ahead) squares += (one - mean) * (one - mean);
    variance += squares / 2 / 3 / 4;
    of_variance += std::pow(squares / 2 / 3 / 4, 2) / 2;
  }
  const Compared main = compared(a[0], a), other = compared(b[0], b);
  const Estimate patients = difference(main, other, false), all = difference(main, other, true);
  EXPECT_TRUE(std::isnan(patients.error_of_fits));
  const double error = std::sqrt(variance), d = all.value.value;
  const double freedom = variance * variance / of_variance;  // Satterthwaite's
  EXPECT_NEAR(all.error_of_fits, error, 1e-12);
  EXPECT_EQ(d, patients.value.value);
  EXPECT_NEAR(d - all.low.value, std::hypot(d - patients.low.value, reach(error, freedom, 0.95)),
              1e-12);
  EXPECT_NEAR(all.claim_high - d, std::hypot(patients.claim_high - d, reach(error, freedom, 0.99)),
              1e-12);
}

TEST(FitSpread, IsThatOfRepeatsWhereThereIsOneSeed) {
  const auto a = fit(1, 0.6, 3), b = fit(2, 0.2, 3);
  double ahead[3], mean = 0, squares = 0;
  for (std::size_t r = 0; r < 3; ++r) {
    ahead[r] = (auroc_of(a[2 * r]) + auroc_of(a[2 * r + 1]) - auroc_of(b[2 * r]) -
                auroc_of(b[2 * r + 1])) /
               2;
    mean += ahead[r] / 3;
  }
  for (const double one : ahead) squares += (one - mean) * (one - mean);
  EXPECT_NEAR(difference(compared(a, {}), compared(b, {}), true).error_of_fits,
              std::sqrt(squares / 2 / 3), 1e-12);
}

TEST(FitSpread, IsUnknownOfOneFitAndOfDifferentNumbersOfFits) {
  const auto a = fit(1, 0.6), b = fit(2, 0.2);
  for (const auto& fits : {std::vector<std::vector<FoldScores>>{}, {a, b}}) {
    const Compared main = compared(a, {}), other = compared(b, fits);
    const Estimate one = difference(main, other, true);
    EXPECT_TRUE(std::isnan(one.error_of_fits));
    EXPECT_EQ(one.low.value, difference(main, other, false).low.value);
  }
}

}  // namespace
}  // namespace coldframe::temporal
