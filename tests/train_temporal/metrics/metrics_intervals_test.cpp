#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "common/threads/counter_random.h"
#include "train_temporal/metrics/intervals.h"

namespace coldframe::temporal {
namespace {

double normal(CounterRandom& random) {
  const double radius = std::sqrt(-2 * std::log(random.uniform() + 1e-300));
  return radius * std::cos(6.283185307179586 * random.uniform());
}

// `patients` of two exams each, dealt into folds; positives score higher by `shift`.
std::vector<FoldScores> cohort(std::size_t patients, std::size_t folds, double shift,
                               std::uint64_t seed, std::size_t repeats = 1) {
  std::vector<FoldScores> result;
  for (std::size_t repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t fold = 0; fold < folds; ++fold) {
      FoldScores& one = result.emplace_back();
      one.repeat = repeat;
      one.fold = fold;
      for (std::size_t p = 0; p < patients; ++p) {
        if ((p / 2 + p * repeat) % folds != fold) continue;
        CounterRandom random({seed, p});  // the same score in every repeat
        const int label = p % 2 == 0;
        const double own = normal(random);
        for (int exam = 0; exam < 2; ++exam) {
          const double z = shift * label + own + 0.5 * normal(random);
          const double score = 1 / (1 + std::exp(-z));
          one.exams.probability.insert(one.exams.probability.end(), {1 - score, score});
          one.exams.label.push_back(label);
          one.patient.push_back(p);
        }
      }
      one.exams.decision = decide(one.exams.probability, 2, 0.5);
    }
  }
  return result;
}

const Estimate& mean_auroc(const std::vector<MetricSummary>& summary) {
  return summary.front().mean_over_folds;
}

TEST(DrawPatients, DrawsWithinStrataAndAsManyAsThereAre) {
  const std::vector<std::vector<std::size_t>> strata = {{0, 1, 2, 3, 4}, {5, 6, 7}, {}};
  std::set<std::vector<std::uint32_t>> distinct;
  std::vector<double> total(8, 0);
  for (std::uint64_t resample = 0; resample < 2000; ++resample) {
    const auto drawn = draw_patients(strata, 8, 3, resample);
    EXPECT_EQ(std::accumulate(drawn.begin(), drawn.begin() + 5, 0u), 5u);
    EXPECT_EQ(std::accumulate(drawn.begin() + 5, drawn.end(), 0u), 3u);
    for (std::size_t p = 0; p < 8; ++p) total[p] += drawn[p];
    distinct.insert(drawn);
  }
  for (double count : total) EXPECT_NEAR(count, 2000, 150);
  EXPECT_GT(distinct.size(), 500u);
  EXPECT_EQ(draw_patients(strata, 8, 3, 17), draw_patients(strata, 8, 3, 17));
  EXPECT_NE(draw_patients(strata, 8, 4, 17), draw_patients(strata, 8, 3, 17));
}

TEST(Summarize, GivesMeanOverFoldsAndPooledFigure) {
  const auto folds = cohort(60, 5, 1.5, 1);
  const auto summary = summarize(resample_metrics(folds, {.resamples = 200}));
  double mean = 0;
  ScoredExams all;
  for (const FoldScores& fold : folds) {
    mean += compute_metric(Metric::kAuroc, fold.exams).value / 5;
    all.probability.insert(all.probability.end(), fold.exams.probability.begin(),
                           fold.exams.probability.end());
    all.label.insert(all.label.end(), fold.exams.label.begin(), fold.exams.label.end());
  }
  EXPECT_NEAR(mean_auroc(summary).value.value, mean, 1e-12);
  EXPECT_EQ(summary[0].pooled.value.value, compute_metric(Metric::kAuroc, all).value);
  EXPECT_EQ(summary[0].per_fold.size(), 5u);
  for (const MetricSummary& one : summary) {
    if (!one.pooled.low.defined()) continue;
    EXPECT_LE(one.pooled.low.value, one.pooled.high.value) << metric_key(one.metric);
  }
}

TEST(Summarize, IsReproducibleAndIndependentOfTheOrderOfExams) {
  auto folds = cohort(40, 4, 1.0, 2);
  const auto first = summarize(resample_metrics(folds, {.resamples = 100, .seed = 9}));
  for (FoldScores& fold : folds) {  // reverse the exams
    std::ranges::reverse(fold.patient);
    std::ranges::reverse(fold.exams.label);
    std::ranges::reverse(fold.exams.decision);
    std::ranges::reverse(fold.exams.probability);
    for (std::size_t i = 0; i < fold.exams.probability.size(); i += 2) {
      std::swap(fold.exams.probability[i], fold.exams.probability[i + 1]);
    }
  }
  const auto second = summarize(resample_metrics(folds, {.resamples = 100, .seed = 9}));
  EXPECT_EQ(mean_auroc(first).low.value, mean_auroc(second).low.value);
  EXPECT_EQ(mean_auroc(first).high.value, mean_auroc(second).high.value);
  const auto other = summarize(resample_metrics(folds, {.resamples = 100, .seed = 10}));
  EXPECT_NE(mean_auroc(first).low.value, mean_auroc(other).low.value);
}

TEST(Summarize, CountsPatientsAndNotExams) {
  // The same exams, each its own patient: exams of a patient agree, so that the interval by patient
  // must be the wider one.
  auto folds = cohort(60, 1, 1.0, 3);
  const auto by_patient = summarize(resample_metrics(folds, {.resamples = 1000}));
  std::iota(folds[0].patient.begin(), folds[0].patient.end(), std::size_t{0});
  const auto by_exam = summarize(resample_metrics(folds, {.resamples = 1000}));
  const auto width = [](const Estimate& e) { return e.high.value - e.low.value; };
  EXPECT_GT(width(mean_auroc(by_patient)), 1.15 * width(mean_auroc(by_exam)));
}

TEST(Summarize, DoesNotTakeRepeatsForNewPatients) {
  const auto width = [](std::size_t repeats) {
    const auto folds = cohort(60, 5, 1.0, 4, repeats);
    const auto summary = summarize(resample_metrics(folds, {.resamples = 1000}));
    return summary[0].pooled.high.value - summary[0].pooled.low.value;
  };
  EXPECT_NEAR(width(4) / width(1), 1.0, 0.05);
}

TEST(Summarize, CoversTheTruthAboutAsOftenAsItSays) {
  // AUROC of two normals at distance d, with a common variance of 1.25, is Φ(d / sqrt(2.5)).
  const double truth = 0.5 * std::erfc(-1.0 / std::sqrt(2.5) / std::sqrt(2.0));
  int covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto folds = cohort(80, 1, 1.0, 100 + static_cast<std::uint64_t>(trial));
    const auto summary = summarize(resample_metrics(folds, {.resamples = 150}));
    covered += mean_auroc(summary).low.value <= truth && truth <= mean_auroc(summary).high.value;
  }
  EXPECT_GE(covered, 0.89 * kTrials);
  EXPECT_LE(covered, 0.99 * kTrials);
}

TEST(Summarize, PutsTheIntervalAroundABiasedFigureToo) {
  // Resamples repeat exams, which makes bins purer and ECE larger.
  const auto summary = summarize(resample_metrics(cohort(60, 5, 1.5, 1), {.resamples = 500}));
  for (const MetricSummary& one : summary) {
    const Estimate& estimate = one.mean_over_folds;
    if (!estimate.low.defined()) continue;
    EXPECT_LT(estimate.low.value, estimate.value.value) << metric_key(one.metric);
    EXPECT_GT(estimate.high.value, estimate.value.value) << metric_key(one.metric);
  }
}

TEST(Summarize, SaysWhyThereIsNoInterval) {
  auto folds = cohort(20, 2, 1.0, 5);
  std::ranges::fill(folds[0].exams.label, 1);
  std::ranges::fill(folds[1].exams.label, 1);
  const auto summary = summarize(resample_metrics(folds, {.resamples = 50}));
  EXPECT_EQ(mean_auroc(summary).value.undefined, "no negative exam");
  EXPECT_EQ(mean_auroc(summary).low.undefined, "defined in 0 of 50 resamples");
}

TEST(Summarize, LeavesOneClassFoldsOutOfTheMean) {
  auto folds = cohort(40, 4, 1.0, 6);
  const auto before = summarize(resample_metrics(folds, {.resamples = 20}));
  std::ranges::fill(folds[3].exams.label, 0);
  const auto summary = summarize(resample_metrics(folds, {.resamples = 20}));
  EXPECT_FALSE(summary[0].per_fold[3].defined());
  double mean = 0;
  for (std::size_t f = 0; f < 3; ++f) mean += before[0].per_fold[f].value / 3;
  EXPECT_NEAR(mean_auroc(summary).value.value, mean, 1e-12);
}

TEST(PairedDifferences, AreZeroForEqualModelsAndTightForSimilarOnes) {
  const auto a = cohort(60, 5, 1.0, 7);
  const auto table = resample_metrics(a, {.resamples = 300});
  for (const PairedDifference& difference : paired_differences(table, table)) {
    if (!difference.mean_over_folds.value.defined()) continue;
    EXPECT_EQ(difference.mean_over_folds.value.value, 0.0);
    EXPECT_EQ(difference.mean_over_folds.low.value, 0.0);
    EXPECT_EQ(difference.pooled.high.value, 0.0);
  }
  auto b = a;  // the same scores with a little noise
  CounterRandom random({8});
  for (FoldScores& fold : b) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      const double p = std::clamp(fold.exams.score(i, 1) + 0.02 * normal(random), 0.0, 1.0);
      fold.exams.probability[2 * i] = 1 - p;
      fold.exams.probability[2 * i + 1] = p;
    }
  }
  const auto other = resample_metrics(b, {.resamples = 300});
  const Estimate paired = paired_differences(table, other)[0].mean_over_folds;
  const Estimate alone = summarize(table)[0].mean_over_folds;
  EXPECT_LT(paired.high.value - paired.low.value, 0.3 * (alone.high.value - alone.low.value));
  EXPECT_NEAR(paired.value.value,
              alone.value.value - summarize(other)[0].mean_over_folds.value.value, 1e-12);
}

}  // namespace
}  // namespace coldframe::temporal
