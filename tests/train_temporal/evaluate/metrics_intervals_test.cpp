#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "common/threads/counter_random.h"
#include "train_temporal/evaluate/intervals.h"

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
          one.exams.predicted.insert(one.exams.predicted.end(), {1 - score, score});
          one.exams.label.push_back(label);
          one.patient.push_back(p);
        }
      }
      one.exams.decision = decide(one.exams.predicted, 2, 0.5);
    }
  }
  return result;
}

const Estimate& mean_auroc(const std::vector<MetricSummary>& summary) {
  return summary.front().mean_over_folds;
}

TEST(Summarize, GivesMeanOverFoldsAndPooledFigure) {
  const auto folds = cohort(60, 5, 1.5, 1);
  const auto summary = summarize(leave_out_patients(folds));
  double mean = 0;
  ScoredExams all;
  for (const FoldScores& fold : folds) {
    mean += compute_metric(metric_named("auroc"), fold.exams).value / 5;
    all.predicted.insert(all.predicted.end(), fold.exams.predicted.begin(),
                         fold.exams.predicted.end());
    all.label.insert(all.label.end(), fold.exams.label.begin(), fold.exams.label.end());
  }
  EXPECT_NEAR(mean_auroc(summary).value.value, mean, 1e-12);
  EXPECT_EQ(summary[0].pooled.value.value, compute_metric(metric_named("auroc"), all).value);
  EXPECT_EQ(summary[0].per_fold.size(), 5u);
  for (const MetricSummary& one : summary) {
    if (!one.pooled.low.defined()) continue;
    EXPECT_LE(one.pooled.low.value, one.pooled.high.value) << one.metric->key;
  }
}

TEST(Summarize, IsIndependentOfTheOrderOfExams) {
  auto folds = cohort(40, 4, 1.0, 2);
  const auto first = summarize(leave_out_patients(folds));
  for (FoldScores& fold : folds) {  // reverse the exams
    std::ranges::reverse(fold.patient);
    std::ranges::reverse(fold.exams.label);
    std::ranges::reverse(fold.exams.decision);
    std::ranges::reverse(fold.exams.predicted);
    for (std::size_t i = 0; i < fold.exams.predicted.size(); i += 2) {
      std::swap(fold.exams.predicted[i], fold.exams.predicted[i + 1]);
    }
  }
  const auto second = summarize(leave_out_patients(folds));
  EXPECT_EQ(mean_auroc(first).low.value, mean_auroc(second).low.value);
  EXPECT_EQ(mean_auroc(first).high.value, mean_auroc(second).high.value);
}

// Two exams for each of eight patients, perfectly told apart.
std::vector<FoldScores> perfect(std::size_t patients) {
  auto folds = cohort(patients, 2, 0, 1);
  for (FoldScores& fold : folds) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      const double p = fold.exams.label[i] == 1 ? 0.9 : 0.1;
      fold.exams.predicted[2 * i] = 1 - p;
      fold.exams.predicted[2 * i + 1] = p;
      fold.exams.decision[i] = fold.exams.label[i];
    }
  }
  return folds;
}

// Eight patients with an AUROC of 1: an AUROC of 0.025^(1/4) would leave all four disjoint pairs in
// order once in forty times; the score interval of eight trials of which none failed says more.
TEST(Summarize, BoundsWhatIsPerfect) {
  const auto few = summarize(leave_out_patients(perfect(8)));
  EXPECT_EQ(mean_auroc(few).value.value, 1.0);
  const double t = student_quantile(0.975, 4);
  EXPECT_NEAR(mean_auroc(few).low.value, 8 / (8 + t * t), 1e-12);
  EXPECT_GT(mean_auroc(few).low.value, std::pow(0.025, 0.25));
  EXPECT_EQ(mean_auroc(few).high.value, 1.0);
  const auto many = summarize(leave_out_patients(perfect(200)));
  EXPECT_GT(mean_auroc(many).low.value, 0.96);
  for (const MetricSummary& one : few) {
    const Estimate& estimate = one.primary();
    if (!estimate.low.defined()) continue;
    EXPECT_LT(estimate.low.value, estimate.high.value) << one.metric->key;
  }
  // Of two perfect models one may be as much worse.
  const auto table = leave_out_patients(perfect(8));
  const Estimate same = paired_differences(table, table)[0].mean_over_folds;
  EXPECT_NEAR(same.low.value, mean_auroc(few).low.value - 1, 1e-12);
  EXPECT_NEAR(same.high.value, 1 - mean_auroc(few).low.value, 1e-12);
}

// Patients of five classes, six of the last; `wrong` of them, spread over the classes, have a low
// probability of the right class.
std::vector<FoldScores> of_five_classes(std::size_t wrong, std::uint64_t seed = 7) {
  std::vector<FoldScores> folds(2);
  std::size_t patient = 0;
  for (const auto& [label, count] : {std::pair(0, 12), {1, 10}, {2, 12}, {3, 10}, {4, 6}}) {
    for (int i = 0; i < count; ++i, ++patient) {
      FoldScores& fold = folds[patient % 2];
      fold.fold = patient % 2;
      fold.exams.width = 5;
      CounterRandom random({seed, patient});
      std::vector<double> p(5);
      for (double& one : p) one = random.uniform();
      const bool is_wrong = (patient * 17 + seed) % 50 < wrong;
      p[static_cast<std::size_t>(label)] += is_wrong ? -1 : 2;
      const double least = *std::ranges::min_element(p);
      double sum = 0;
      for (double& one : p) sum += one += 0.1 - std::min(least, 0.0);
      for (double& one : p) one /= sum;
      fold.exams.predicted.insert(fold.exams.predicted.end(), p.begin(), p.end());
      fold.exams.label.push_back(label);
      fold.patient.push_back(patient);
    }
  }
  for (FoldScores& fold : folds) fold.exams.decision = decide(fold.exams.predicted, 5, 0.5);
  return folds;
}

// A model with fewer faults has no lower bounds than one with these and others, but for the last
// digit; one without any has none at all.
TEST(Summarize, RaisesBoundsWithTheFigure) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::map<Metric, Estimate> before;
    for (std::size_t wrong : {14, 10, 7, 5, 4, 3, 2, 1, 0}) {
      for (const MetricSummary& one : summarize(leave_out_patients(of_five_classes(wrong, seed)))) {
        const Estimate& now = one.primary();
        if (one.metric->shape != Shape::kShare || !now.low.defined()) continue;
        const auto known = before.find(one.metric);
        if (known != before.end() && known->second.value.value <= now.value.value) {
          const double digit = wrong == 0 ? 0 : 0.001;
          EXPECT_GE(now.low.value, known->second.low.value - digit) << one.metric->key << wrong;
          EXPECT_GE(now.high.value, known->second.high.value) << one.metric->key << wrong;
          EXPECT_GE(now.claim_low, known->second.claim_low - digit) << one.metric->key << wrong;
        }
        before[one.metric] = now;
      }
    }
    EXPECT_EQ(before.at(metric_named("auroc")).value.value, 1);
  }
}

TEST(Summarize, BoundsAPerfectMeanOfClassesByTheMean) {
  const auto summary = summarize(leave_out_patients(of_five_classes(0)));
  const Estimate& auroc = mean_auroc(summary);
  EXPECT_EQ(auroc.value.value, 1);
  // Four fifths of 50 patients, of whom the rarest class has six.
  EXPECT_NEAR(auroc.low.value, least_mean({6, 8.5, 8.5, 8.5, 8.5}, 0.025), 1e-12);
  EXPECT_GT(auroc.low.value, std::pow(0.025, 1.0 / 6) + 0.3);
}

// Frames of both classes in every patient: most are of class 0 in each.
TEST(Summarize, CountsPatientsWithBothClassesForEach) {
  FoldScores one;
  CounterRandom random({4});
  for (std::size_t p = 0; p < 20; ++p) {
    for (int frame = 0; frame < 5; ++frame) {
      const int label = frame > 2;
      const double score = 1 / (1 + std::exp(-label - normal(random)));
      one.exams.predicted.insert(one.exams.predicted.end(), {1 - score, score});
      one.exams.label.push_back(label);
      one.patient.push_back(p);
    }
  }
  one.exams.decision = decide(one.exams.predicted, 2, 0.5);
  for (const MetricSummary& each : summarize(leave_out_patients(std::vector{one}))) {
    EXPECT_EQ(each.primary().low.defined(), each.metric != metric_named("ece")) << each.metric->key;
  }
}

// Frames of all three classes in every patient but one, or in all, and no rank that is wrong.
TEST(Summarize, CountsPatientsWithAllClassesForEachOfAPooledMean) {
  for (const std::size_t lacks : {0, 1}) {
    FoldScores one;
    one.exams.width = 3;
    for (std::size_t p = 0; p < 20; ++p) {
      for (std::size_t label = 0; label < (p < lacks ? 2 : 3); ++label) {
        std::vector<double> predicted(3, 0.1);
        predicted[label] = 0.8;
        one.exams.predicted.insert(one.exams.predicted.end(), predicted.begin(), predicted.end());
        one.exams.label.push_back(static_cast<int>(label));
        one.patient.push_back(p);
      }
    }
    one.exams.decision = decide(one.exams.predicted, 3, 0.5);
    const Estimate auroc = summarize(leave_out_patients(std::vector{one})).front().pooled;
    EXPECT_EQ(auroc.value.value, 1);
    // Two thirds of 20 patients, a third of them for each class.
    EXPECT_NEAR(auroc.low.value, least_mean(std::vector(3, 40.0 / 9), 0.025), 1e-12);
  }
}

TEST(Summarize, TakesAllButRanksFromAllFoldsTogether) {
  for (const MetricSummary& one : summarize(leave_out_patients(cohort(60, 5, 1.0, 3)))) {
    const bool ranks = one.metric == metric_named("auroc") || one.metric == metric_named("auprc");
    EXPECT_EQ(one.by_fold, ranks) << one.metric->key;
    EXPECT_EQ(one.mean_over_folds.value.defined(), ranks) << one.metric->key;
    EXPECT_TRUE(one.pooled.value.defined()) << one.metric->key;
  }
}

// Folds of one patient each have no AUROC; the exams of all folds have.
TEST(Summarize, TakesRanksFromAllFoldsWhereNoneHasThem) {
  const auto summary = summarize(leave_out_patients(cohort(20, 10, 1.0, 3)));
  auto alone = cohort(20, 1, 1.0, 3);
  std::vector<FoldScores> folds;
  for (std::size_t p = 0; p < 20; ++p) {
    FoldScores& one = folds.emplace_back();
    one.fold = p;
    for (std::size_t i = 0; i < alone[0].exams.size(); ++i) {
      if (alone[0].patient[i] != p) continue;
      for (int c : {0, 1}) one.exams.predicted.push_back(alone[0].exams.score(i, c));
      one.exams.label.push_back(alone[0].exams.label[i]);
      one.exams.decision.push_back(alone[0].exams.decision[i]);
      one.patient.push_back(p);
    }
  }
  const auto left = summarize(leave_out_patients(folds));
  EXPECT_FALSE(left[0].by_fold);
  EXPECT_EQ(left[0].primary().value.value,
            compute_metric(metric_named("auroc"), alone[0].exams).value);
  EXPECT_TRUE(left[0].primary().low.defined());
}

TEST(Summarize, CountsPatientsAndNotExams) {
  // The same exams, each its own patient: exams of a patient agree, so that the interval by patient
  // must be the wider one.
  auto folds = cohort(60, 1, 1.0, 3);
  const auto by_patient = summarize(leave_out_patients(folds));
  std::iota(folds[0].patient.begin(), folds[0].patient.end(), std::size_t{0});
  const auto by_exam = summarize(leave_out_patients(folds));
  const auto width = [](const Estimate& e) { return e.high.value - e.low.value; };
  EXPECT_GT(width(mean_auroc(by_patient)), 1.15 * width(mean_auroc(by_exam)));
}

TEST(Summarize, DoesNotTakeRepeatsForNewPatients) {
  const auto width = [](std::size_t repeats) {
    const auto folds = cohort(60, 5, 1.0, 4, repeats);
    const auto summary = summarize(leave_out_patients(folds));
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
    const auto folds = cohort(40, 5, 1.0, 100 + static_cast<std::uint64_t>(trial));
    const auto summary = summarize(leave_out_patients(folds));
    covered += mean_auroc(summary).low.value <= truth && truth <= mean_auroc(summary).high.value;
  }
  EXPECT_GE(covered, 0.92 * kTrials);
  EXPECT_LE(covered, 0.99 * kTrials);
}

TEST(Summarize, PutsTheIntervalAroundEveryFigureAndNoneAroundTheEce) {
  const auto summary = summarize(leave_out_patients(cohort(60, 5, 1.5, 1)));
  for (const MetricSummary& one : summary) {
    const Estimate& estimate = one.primary();
    if (one.metric == metric_named("ece")) {
      EXPECT_EQ(estimate.low.undefined, "binning biases it upwards");
      continue;
    }
    EXPECT_LT(estimate.low.value, estimate.value.value) << one.metric->key;
    EXPECT_GT(estimate.high.value, estimate.value.value) << one.metric->key;
  }
}

TEST(Summarize, SaysWhyThereIsNoInterval) {
  auto folds = cohort(20, 2, 1.0, 5);
  for (FoldScores& fold : folds) std::ranges::fill(fold.exams.label, 1);
  auto summary = summarize(leave_out_patients(folds));
  EXPECT_EQ(mean_auroc(summary).value.undefined, "no negative exam");
  EXPECT_FALSE(mean_auroc(summary).low.defined());
  summary = summarize(leave_out_patients(cohort(6, 2, 1.0, 5)));
  EXPECT_EQ(mean_auroc(summary).low.undefined,
            "too small a sample to bound: 3 pairs of patients, 4 needed");
}

// Two patients of forty have the rare class: what counts all patients alike is bounded all the
// same.
TEST(Summarize, BoundsFiguresOfAllPatientsWhereAClassIsRare) {
  auto folds = cohort(40, 1, 1.0, 5);
  for (std::size_t i = 0; i < folds[0].exams.size(); ++i) {
    folds[0].exams.label[i] = folds[0].patient[i] < 2;
  }
  for (const MetricSummary& one : summarize(leave_out_patients(folds))) {
    const std::set<Metric> of_all = {metric_named("accuracy"), metric_named("kappa"),
                                     metric_named("brier"), metric_named("log_loss"),
                                     metric_named("specificity")};
    EXPECT_EQ(one.primary().low.defined(), of_all.contains(one.metric)) << one.metric->key;
  }
}

TEST(Summarize, ClaimsByAnIntervalOf99Percent) {
  const auto folds = cohort(40, 4, 1.0, 6);
  const auto usual = summarize(leave_out_patients(folds));
  const auto strict = summarize(leave_out_patients(folds, kClaimLevel));
  for (std::size_t m = 0; m < usual.size(); ++m) {
    const Estimate &one = usual[m].primary(), &other = strict[m].primary();
    if (!one.low.defined()) continue;
    EXPECT_EQ(one.claim_low, other.low.value) << usual[m].metric->key;
    EXPECT_EQ(one.claim_high, other.high.value) << usual[m].metric->key;
    EXPECT_LT(one.claim_low, one.low.value) << usual[m].metric->key;
  }
}

// All decisions, and ranks, are the same here; that is no certainty for other patients.
TEST(PairedDifferences, OfModelsThatAreAlikeByChanceHaveAWidth) {
  const auto a = cohort(40, 2, 2.0, 9);
  auto b = a;
  for (FoldScores& fold : b) {
    for (double& p : fold.exams.predicted) p = 0.5 + 0.8 * (p - 0.5);
  }
  const auto differences = paired_differences(leave_out_patients(a), leave_out_patients(b));
  for (const PairedDifference& one : differences) {
    const Estimate& estimate = one.primary();
    if (estimate.value.value != 0 || one.metric == metric_named("ece")) continue;
    EXPECT_LT(estimate.low.value, 0.0) << one.metric->key;
    EXPECT_GT(estimate.high.value, 0.0) << one.metric->key;
  }
}

TEST(PairedDifferences, OfR2AreBoundedByTheirOwnError) {
  FoldScores a;
  a.exams.width = 1;
  a.exams.scale = Scale::kNumber;
  CounterRandom random({3});
  FoldScores b = a;
  for (std::size_t p = 0; p < 50; ++p) {
    const double truth = normal(random);
    for (FoldScores* one : {&a, &b}) {
      one->exams.number.push_back(truth);
      one->exams.predicted.push_back(truth + 0.5 * normal(random));
      one->exams.label.push_back(0);
      one->exams.decision.push_back(0);
      one->patient.push_back(p);
    }
  }
  const Estimate r2 =
      paired_differences(leave_out_patients(std::vector{a}), leave_out_patients(std::vector{b}))[0]
          .pooled;
  EXPECT_LT(r2.high.value - r2.low.value, 0.5);
}

TEST(MacroTable, RestsOnTheRarestClassOfEachTarget) {
  const auto table = leave_out_patients(cohort(30, 1, 1.0, 6));
  auto rare = table;
  rare.patients_of_class = {25, 5};
  EXPECT_EQ(macro_table(std::vector{table, rare}).patients_of_class,
            (std::vector<std::size_t>{15, 5}));
  auto few_pairs = table;
  few_pairs.pairs_of_class = {1, 1};
  EXPECT_EQ(macro_table(std::vector{few_pairs, table}).pairs_of_class,
            (std::vector<std::size_t>{1, 15}));
}

// Targets share their patients: copies of one say no more than it does.
TEST(MacroTable, OfCopiesIsKnownNoBetterThanOneOfThem) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto table = leave_out_patients(cohort(120, 5, 1.8, seed));
    const Estimate one = summarize(table)[0].mean_over_folds;
    const Estimate macro = summarize(macro_table(std::vector(14, table)))[0].mean_over_folds;
    EXPECT_NEAR(macro.value.value, one.value.value, 1e-12);
    EXPECT_LE(macro.low.value, one.low.value);
    EXPECT_LE(macro.claim_low, one.claim_low);
  }
}

// The second target has labels for half of the patients.
TEST(MacroTable, OfPerfectTargetsHasTheSameBoundsInAnyOrder) {
  const auto folds = perfect(40);
  std::vector<FoldScores> half;
  for (const FoldScores& fold : folds) {
    std::vector<std::size_t> labelled;
    for (std::size_t i = 0; i < fold.exams.size(); ++i)
      if (fold.patient[i] < 20) labelled.push_back(i);
    FoldScores& rest = half.emplace_back(
        FoldScores{0, fold.fold, exams_at(fold.exams, labelled), {}, fold.patient});
    for (const std::size_t i : labelled) rest.patient.push_back(fold.patient[i]);
  }
  const auto all = leave_out_patients(folds), some = leave_out_patients(half);
  const auto bounds = [](const std::vector<MetricTable>& targets) {
    return mean_auroc(summarize(macro_table(targets))).low.value;
  };
  EXPECT_EQ(bounds({some, all}), bounds({all, some}));
}

// A fold without the rare class has the mean of the other four.
TEST(Summarize, AddsTheMeanOverTheClassesThatEachFoldHas) {
  auto folds = of_five_classes(20);
  EXPECT_FALSE(summarize(leave_out_patients(folds))[0].over_classes_present.defined());
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < folds[0].exams.size(); ++i)
    if (folds[0].exams.label[i] != 4) others.push_back(i);
  FoldScores rest{0, 0, exams_at(folds[0].exams, others), {}};
  for (std::size_t i : others) rest.patient.push_back(folds[0].patient[i]);
  folds[0] = rest;
  const MetricSummary auroc = summarize(leave_out_patients(folds))[0];
  EXPECT_EQ(auroc.folds_with_it(), 1u);
  EXPECT_EQ(auroc.mean_over_folds.value.value,
            compute_metric(metric_named("auroc"), folds[1].exams).value);
  double of_four = 0;
  for (std::size_t c = 0; c < 4; ++c) {
    const OneVsRest one = one_vs_rest(folds[0].exams, c);
    of_four += temporal::auroc(one.score, one.positive).value / 4;
  }
  EXPECT_NEAR(auroc.over_classes_present.value, (of_four + auroc.mean_over_folds.value.value) / 2,
              1e-12);
}

TEST(Summarize, LeavesOneClassFoldsOutOfTheMean) {
  auto folds = cohort(40, 4, 1.0, 6);
  const auto before = summarize(leave_out_patients(folds));
  std::ranges::fill(folds[3].exams.label, 0);
  const auto summary = summarize(leave_out_patients(folds));
  EXPECT_FALSE(summary[0].per_fold[3].defined());
  double mean = 0;
  for (std::size_t f = 0; f < 3; ++f) mean += before[0].per_fold[f].value / 3;
  EXPECT_NEAR(mean_auroc(summary).value.value, mean, 1e-12);
}

// One of eighty patients tells the models apart.
TEST(PairedDifferences, AreKnownTheBetterTheMoreTheModelsAgree) {
  const auto a = cohort(80, 5, 1.0, 7);
  auto b = a;
  const std::size_t changed = b[0].patient[0];
  for (std::size_t i = 0; i < b[0].exams.size(); ++i) {
    if (b[0].patient[i] != changed) continue;
    const double p = 0.8 * b[0].exams.score(i, 1);
    b[0].exams.predicted[2 * i] = 1 - p;
    b[0].exams.predicted[2 * i + 1] = p;
  }
  const Estimate auroc =
      paired_differences(leave_out_patients(a), leave_out_patients(b))[0].mean_over_folds;
  EXPECT_NE(auroc.value.value, 0);
  EXPECT_LT(std::max(auroc.high.value, -auroc.low.value), 0.1);
  EXPECT_LE(auroc.claim_low, 0);
  EXPECT_GE(auroc.claim_high, 0);
}

TEST(PairedDifferences, AreZeroForEqualModelsAndTightForSimilarOnes) {
  const auto a = cohort(60, 5, 1.0, 7);
  const auto table = leave_out_patients(a);
  for (const PairedDifference& difference : paired_differences(table, table)) {
    EXPECT_EQ(difference.primary().value.value, 0.0);
    if (difference.metric == metric_named("ece")) continue;
    EXPECT_EQ(difference.primary().low.value, 0.0);
    EXPECT_EQ(difference.primary().high.value, 0.0);
  }
  auto b = a;  // the same scores with a little noise
  CounterRandom random({8});
  for (FoldScores& fold : b) {
    for (std::size_t i = 0; i < fold.exams.size(); ++i) {
      const double p = std::clamp(fold.exams.score(i, 1) + 0.02 * normal(random), 0.0, 1.0);
      fold.exams.predicted[2 * i] = 1 - p;
      fold.exams.predicted[2 * i + 1] = p;
    }
  }
  const auto other = leave_out_patients(b);
  const Estimate paired = paired_differences(table, other)[0].mean_over_folds;
  const Estimate alone = summarize(table)[0].mean_over_folds;
  EXPECT_LT(paired.high.value - paired.low.value, 0.3 * (alone.high.value - alone.low.value));
  EXPECT_NEAR(paired.value.value,
              alone.value.value - summarize(other)[0].mean_over_folds.value.value, 1e-12);
}

}  // namespace
}  // namespace coldframe::temporal
