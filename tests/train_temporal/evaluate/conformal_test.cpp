#include "train_temporal/evaluate/conformal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/calibration.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kClasses = 3;
constexpr double kLevel = 0.9;

double bell(CounterRandom& random) {
  double sum = -6;  // of twelve uniform numbers: near enough to a normal number
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

// Patients with 1 to 9 exams that are alike, and like the patient's class less the fewer they are.
FoldScores made_patients(std::size_t each_class, CounterRandom& random, std::size_t first = 0) {
  FoldScores fold;
  fold.exams.width = kClasses;
  std::vector<double> logits;
  for (std::size_t p = 0; p < kClasses * each_class; ++p) {
    const std::size_t count = random.below(2) == 0 ? 1 : 9;
    const double patient = bell(random) + (count == 1 ? 0 : 2);
    for (std::size_t e = 0; e < count; ++e) {
      for (std::size_t c = 0; c < kClasses; ++c)
        logits.push_back(c == p % kClasses ? patient + 0.2 * bell(random) : 0);
      fold.exams.label.push_back(static_cast<int>(p % kClasses));
      fold.exams.frame.push_back({fold.exams.frame.size(), 0});
      fold.patient.push_back(first + p);
    }
  }
  fold.exams.predicted = softmax(logits, kClasses);
  return fold;
}

// The share of 334 patients of each class that the sets hold.
std::array<double, kClasses> held_of_new_patients(const ConformalSets& sets,
                                                  CounterRandom& random) {
  const FoldScores fold = made_patients(334, random);
  std::array<double, kClasses> held{};
  std::map<std::size_t, double> exams;
  for (const std::size_t patient : fold.patient) ++exams[patient];
  const double most[] = {sets.quantile(0), sets.quantile(1), sets.quantile(2)};
  for (const HeldOutScore& one : held_out_scores(std::span(&fold, 1)))
    if (one.score <= most[one.of_class]) held[one.of_class] += 1 / exams[one.patient] / 334;
  return held;
}

struct MeanAndError {
  double mean, error;
};

MeanAndError over_cohorts(const std::vector<double>& shares) {
  const auto n = static_cast<double>(shares.size());
  const double mean = std::accumulate(shares.begin(), shares.end(), 0.0) / n;
  double squares = 0;
  for (const double share : shares) squares += (share - mean) * (share - mean);
  return {mean, std::sqrt(squares / (n - 1) / n)};
}

TEST(ConformalSets, HoldEachClassAsOftenAsStatedWithExamsClusteredInPatients) {
  constexpr std::size_t kPatients = 40;  // of each class
  std::array<std::vector<double>, kClasses> by_patient, by_exam;
  for (std::uint64_t cohort = 0; cohort < 200; ++cohort) {
    CounterRandom random({cohort});
    const FoldScores fold = made_patients(kPatients, random);
    std::vector<HeldOutScore> scores = held_out_scores(std::span(&fold, 1));
    const auto right = held_of_new_patients({scores, kClasses, kLevel}, random);
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i].patient = i;
    const auto wrong = held_of_new_patients({scores, kClasses, kLevel}, random);
    for (std::size_t c = 0; c < kClasses; ++c) {
      by_patient[c].push_back(right[c]);
      by_exam[c].push_back(wrong[c]);
    }
  }
  for (std::size_t c = 0; c < kClasses; ++c) {
    const auto [mean, error] = over_cohorts(by_patient[c]);
    EXPECT_GT(mean, kLevel - 3 * error) << c;
    EXPECT_LT(mean, kLevel + 2.0 / (kPatients + 1) + 3 * error) << c;
    // Where exams count instead of patients, those with many speak for those with one.
    EXPECT_LT(over_cohorts(by_exam[c]).mean, kLevel - 0.03) << c;
  }
}

TEST(ConformalSets, TakeTheOrderStatisticOfOneExamAPatient) {
  std::vector<HeldOutScore> scores;
  for (std::size_t i = 0; i < 19; ++i) scores.push_back({0, i, 0, static_cast<double>(i)});
  EXPECT_EQ(ConformalSets(scores, 0, 0.9).quantile(0), 17);   // the 18th of 19
  EXPECT_EQ(ConformalSets(scores, 0, 0.95).quantile(0), 18);  // the 19th
  EXPECT_EQ(ConformalSets(scores, 0, 0.51).quantile(0), 10);  // the 11th
  EXPECT_EQ(ConformalSets(scores, 0, 0.96).too_few()->needed, 24u);
  EXPECT_FALSE(ConformalSets(scores, 0, 0.95).too_few());
  const double at = 3;
  const auto [low, high] = ConformalSets(scores, 0, 0.9).interval(std::span(&at, 1));
  EXPECT_EQ(low, at - 17);
  EXPECT_EQ(high, at + 17);
}

TEST(ConformalSets, NameTheClassAndTheNumberOfPatientsThatItNeeds) {
  std::vector<HeldOutScore> scores;
  for (std::size_t i = 0; i < 20; ++i) scores.push_back({0, i, 0, 0.1});
  for (std::size_t i = 0; i < 40; ++i) scores.push_back({0, 20 + i % 8, 1, 0.1});
  const auto lacking = ConformalSets(scores, 2, 0.9).too_few();
  ASSERT_TRUE(lacking);
  EXPECT_EQ(lacking->of_class, 1u);
  EXPECT_EQ(lacking->patients, 8u);
  EXPECT_EQ(lacking->needed, 9u);
  scores.push_back({0, 99, 1, 0.1});
  EXPECT_FALSE(ConformalSets(scores, 2, 0.9).too_few());
}

// Ranks of Vovk 2015 and bounds of CV+, as their definitions say.
TEST(ConformalSets, HoldExamsAgainstEachHeldOutOneByTheModelsThatDidNotSeeIt) {
  CounterRandom random({7});
  std::vector<HeldOutScore> scores;
  for (std::size_t i = 0; i < 60; ++i) scores.push_back({i % 3, i, 0, random.uniform()});
  const ConformalSets sets(scores, 0, 0.8);
  for (int trial = 0; trial < 200; ++trial) {
    const double by_fold[3] = {random.uniform(), random.uniform(), random.uniform()};
    std::size_t as_bad = 1;
    std::vector<double> below, above;
    for (const HeldOutScore& one : scores) {
      as_bad += one.score >= by_fold[one.fold];
      below.push_back(by_fold[one.fold] - one.score);
      above.push_back(by_fold[one.fold] + one.score);
    }
    EXPECT_EQ(sets.holds(0, by_fold), static_cast<double>(as_bad) / 61 > 1 - 0.8);
    std::ranges::sort(below);
    std::ranges::sort(above);
    const auto [low, high] = sets.interval(by_fold);
    EXPECT_EQ(low, below[11]);   // the 12th: ⌊0.2 · 61⌋
    EXPECT_EQ(high, above[48]);  // the 49th: ⌈0.8 · 61⌉
  }
}

TEST(CoverageOfSets, TellsASiteWhereSetsDoNotHold) {
  CounterRandom random({3});
  std::vector<FoldScores> folds;
  SubgroupColumn site{"site", {"A", "C"}, {}, {}};
  for (std::size_t f = 0; f < 5; ++f) {
    FoldScores& fold = folds.emplace_back(made_patients(20, random, 100 * f));
    fold.fold = f;
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      fold.exams.frame[i].exam = site.value_of.size();
      const bool shifted = fold.patient[i] % 7 == 0;
      site.value_of.push_back(shifted);
      // There the probabilities are those of the next class.
      const auto first = fold.exams.predicted.begin() + static_cast<std::ptrdiff_t>(kClasses * i);
      if (shifted) std::rotate(first, first + 1, first + kClasses);
    }
  }
  const SetCoverage found = coverage_of_sets(folds, kClasses, kLevel, 0.95, std::span(&site, 1));
  ASSERT_FALSE(found.too_few);
  EXPECT_EQ(found.all.patients, 300u);
  EXPECT_EQ(found.of_class[1].patients, 100u);
  EXPECT_NEAR(found.all.coverage.value.value, kLevel, 0.03);
  EXPECT_LT(found.all.coverage.low.value, kLevel);
  EXPECT_GT(found.all.coverage.high.value, kLevel);
  EXPECT_GT(found.all.size, 1);
  EXPECT_LT(found.all.size, 3);
  ASSERT_EQ(found.all.per_fold.size(), folds.size());
  double mean = 0;  // of folds with as many patients each
  for (const MetricValue& share : found.all.per_fold) mean += share.value / 5;
  EXPECT_NEAR(mean, found.all.coverage.value.value, 1e-12);
  EXPECT_LT(found.of_group[0][1].coverage.high.value, kLevel);
  EXPECT_GT(found.of_group[0][0].coverage.low.value, found.of_group[0][1].coverage.high.value);
  EXPECT_EQ(coverage_of_sets(folds, kClasses, 0.99, 0.95, {}).too_few->needed, 99u);
}

}  // namespace
}  // namespace coldframe::temporal
