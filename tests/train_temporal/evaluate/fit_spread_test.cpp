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
  return {leave_out_patients(folds), figures_of_fits(folds, fits)};
}

Estimate difference(const Compared& a, const Compared& b, bool with_fits) {
  return (with_fits ? paired_differences(a.table, b.table, a.figures, b.figures)
                    : paired_differences(a.table, b.table))
      .front()
      .mean_over_folds;
}

// Of the AUROC, a mean over folds.
Influences changes(const std::vector<FoldScores>& fit) {
  const MetricTable table = leave_out_patients(fit);
  return changes_of(table, 0, Aggregation::kOverFolds,
                    summarize(table).front().mean_over_folds.value.value);
}

// What the jackknife says of the variance of the mean of a − b over three fits.
double variance_by_patient(const std::vector<std::vector<FoldScores>>& a,
                           const std::vector<std::vector<FoldScores>>& b) {
  std::vector<std::vector<double>> ahead;
  for (std::size_t fit = 0; fit < 3; ++fit) {
    const Influences x = changes(a[fit]), y = changes(b[fit]);
    ahead.emplace_back();
    for (std::size_t p = 0; p < x.by.size(); ++p) ahead.back().push_back(x.by[p] - y.by[p]);
  }
  double squares = 0;
  for (std::size_t p = 0; p < ahead[0].size(); ++p) {
    const double mean = (ahead[0][p] + ahead[1][p] + ahead[2][p]) / 3;
    for (const auto& fit : ahead) squares += (fit[p] - mean) * (fit[p] - mean);
  }
  return squares / 2 / 3;
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
  const double beyond = variance - variance_by_patient(a, b);
  ASSERT_GT(beyond, 0);
  EXPECT_NEAR(all.error_of_fits, std::sqrt(beyond), 1e-12);
  EXPECT_EQ(all.value.value, patients.value.value);
  // Student's, with Satterthwaite's degrees of freedom; what patients explain of the variance of
  // fits makes it no more certain.
  Influences ahead = changes(a[0]);
  const Influences of_other = changes(b[0]);
  for (std::size_t p = 0; p < ahead.by.size(); ++p) ahead.by[p] -= of_other.by[p];
  const Spread spread = spread_of(main.table, 0, Aggregation::kOverFolds, ahead);
  const double of_patients = std::min(spread.freedom, spread.freedom_of_variance);
  const double both = spread.variance + beyond;
  const double of_both =
      both * both / (spread.variance * spread.variance / of_patients + of_variance);
  EXPECT_NEAR(std::min(all.high.value - all.value.value, all.value.value - all.low.value),
              std::sqrt(both) * student_quantile(0.975, of_both), 1e-9);
  EXPECT_NEAR(std::min(all.claim_high - all.value.value, all.value.value - all.claim_low),
              std::sqrt(both) * student_quantile(0.995, of_both), 1e-9);
}

// Fits that take each exam a little differently, and are worth the same: what they add is what the
// jackknife finds of their mean already.
TEST(FitSpread, OfWhatPatientsExplainCountsOnce) {
  double beyond = 0, explained = 0;
  for (std::uint64_t cohort = 0; cohort < 40; ++cohort) {
    std::vector<std::vector<FoldScores>> a, b;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      a.push_back(fit(100 * cohort + seed, 0.5));
      b.push_back(fit(100 * cohort + 50 + seed, 0.5));
    }
    const auto mean = [](const std::vector<std::vector<FoldScores>>& fits) {
      std::vector<FoldScores> folds = fits[0];
      for (std::size_t f = 0; f < folds.size(); ++f) {
        for (std::size_t i = 0; i < folds[f].exams.predicted.size(); ++i) {
          double& p = folds[f].exams.predicted[i];
          p = (p + fits[1][f].exams.predicted[i] + fits[2][f].exams.predicted[i]) / 3;
        }
      }
      return folds;
    };
    const Compared main = compared(mean(a), a), other = compared(mean(b), b);
    beyond += std::pow(difference(main, other, true).error_of_fits, 2);
    explained += variance_by_patient(a, b);
  }
  // What chance leaves, since no variance is below 0.
  EXPECT_LT(beyond, 0.4 * explained);
  EXPECT_GT(beyond, 0);
}

// The second model orders the exams as the first does, with other probabilities.
TEST(FitSpread, CountsWhereNoPatientTellsTheModelsApart) {
  const auto a = fit(1, 0.5);
  auto b = a;
  for (FoldScores& fold : b)
    for (double& p : fold.exams.predicted) p = 0.5 + 0.8 * (p - 0.5);
  const auto reach = [](const Estimate& one) { return one.high.value - one.value.value; };
  const Compared other = compared(b, {fit(4, 0.1), fit(5, 0.1), fit(6, 0)});
  const Compared main = compared(a, {fit(1, 0.5), fit(2, 0.3), fit(3, 0.9)});
  const Estimate patients = difference(main, other, false), all = difference(main, other, true);
  ASSERT_EQ(all.value.value, 0);
  ASSERT_GT(all.error_of_fits, 0);
  EXPECT_GT(reach(all), std::hypot(reach(patients), 1.96 * all.error_of_fits));
  EXPECT_EQ(all.low.value, -all.high.value);
  EXPECT_LT(all.claim_low, all.low.value);
  // Of fits that rank every exam, and others that invert all: any difference is possible.
  const auto right = fit(1, 9);
  auto wrong = right;
  for (FoldScores& fold : wrong)
    for (double& p : fold.exams.predicted) p = 1 - p;
  const Estimate any =
      difference(compared(a, {right, wrong, wrong}), compared(b, {wrong, right, right}), true);
  EXPECT_EQ(any.low.undefined, "fits differ too much to bound it");
  EXPECT_TRUE(std::isnan(any.claim_low) && std::isnan(any.claim_high));
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
  std::vector<std::vector<FoldScores>> repeats_of_a, repeats_of_b;
  for (std::ptrdiff_t r = 0; r < 3; ++r) {
    repeats_of_a.emplace_back(a.begin() + 2 * r, a.begin() + 2 * r + 2);
    repeats_of_b.emplace_back(b.begin() + 2 * r, b.begin() + 2 * r + 2);
  }
  const double beyond = squares / 2 / 3 - variance_by_patient(repeats_of_a, repeats_of_b);
  EXPECT_NEAR(difference(compared(a, {}), compared(b, {}), true).error_of_fits,
              std::sqrt(std::max(beyond, 0.0)), 1e-12);
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
