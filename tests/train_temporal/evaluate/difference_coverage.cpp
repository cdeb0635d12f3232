// difference_coverage [COHORTS [PATIENTS …]]: how often the 95 % intervals of a difference between
// the AUROCs of two models hold the truth, and how wide they are beside those of a paired
// bootstrap. COHORTS (500) are made of each number of PATIENTS (80), with 1 to 5 exams each and 5
// folds by patient. The models' errors are correlated by 0, 0.5, 0.9 or 0.99, and the models
//   alike      are equally good
//   unlike     are not
//   3 fits     are the mean of three fits each, which differ in how they take each exam
//   unstable   likewise, and some fits of a fold are better than others
//   shared     are of three fits, of which the second model takes 11 of 15 from the first
//
// The bootstrap draws patients, so that it does not know that fits differ: its width says nothing
// where that is so. The truth of fits is the mean difference of 20 times as many cohorts.
//
// Prints the percentage of the intervals that hold the truth, their mean width over that of the
// bootstrap's, and the percentage of the bootstrap's that hold it. Marked with !, and exit code 1,
// where chance does not explain a percentage outside of 93 to 97; of models that are alike and
// nearly the same, few patients tell them apart, and more than 97 are right. So are more than 1.15
// times the bootstrap's width where fits do not differ in what they are worth.
#include <cmath>
#include <iostream>

#include "common/cli/cli.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "tests/train_temporal/evaluate/coverage.h"
#include "train_temporal/evaluate/intervals.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

constexpr std::size_t kFolds = 5, kResamples = 400, kFits = 3;

struct Setting {
  const char* name;
  double skill, skill_of_other;
  std::size_t fits;
  double worth;   // standard deviation of a fit's skill
  double shared;  // share of fits that the second model takes from the first
};
constexpr Setting kSettings[] = {{"alike", 1.5, 1.5, 1, 0, 0},
                                 {"unlike", 1.5, 1.0, 1, 0, 0},
                                 {"3 fits", 1.5, 1.0, kFits, 0, 0},
                                 {"unstable", 1.5, 1.0, kFits, 0.3, 0},
                                 {"shared", 1.5, 1.5, kFits, 0, 11.0 / 15}};

// A patient's exams in one fold, with the score of each fit of both models.
struct Patient {
  std::size_t fold = 0;
  int label = 0;
  std::vector<std::array<std::array<double, kFits>, 2>> score;  // [exam][model][fit]
};
using Cohort = std::vector<Patient>;

// How a fold's fits differ from each other.
struct Fits {
  std::array<std::array<double, kFits>, 2> worth = {};
  std::array<bool, kFits> shared = {};
};

Fits draw_fits(const Setting& setting, CounterRandom& random) {
  Fits fits;
  for (auto& model : fits.worth)
    for (double& one : model) one = setting.worth * normal(random);
  for (bool& one : fits.shared) one = random.uniform() < setting.shared;
  return fits;
}

// Half of each error's variance is the patient's, half the exam's.
struct Error {
  double of_patient = 0;
  double with(CounterRandom& random) const {
    return std::sqrt(0.5) * (of_patient + normal(random));
  }
};

void add_exams(Patient& patient, const Setting& setting, const Fits& fits, double correlation,
               CounterRandom& random) {
  const Error common{normal(random)};
  std::array<Error, 2> own;
  std::array<std::array<Error, kFits>, 2> of_fit;
  for (Error& each : own) each.of_patient = normal(random);
  for (auto& model : of_fit)
    for (Error& each : model) each.of_patient = normal(random);
  for (std::size_t exams = 1 + random.below(5); exams > 0; --exams) {
    const double of_both = common.with(random);
    auto& score = patient.score.emplace_back();
    for (std::size_t model = 0; model < 2; ++model) {
      const double of_model = own[model].with(random);
      const double skill = model == 0 ? setting.skill : setting.skill_of_other;
      for (std::size_t fit = 0; fit < kFits; ++fit) {
        const double alone = setting.fits == 1
                                 ? of_model
                                 : std::sqrt(0.5) * (of_model + of_fit[model][fit].with(random));
        score[model][fit] = (skill + fits.worth[model][fit]) * patient.label +
                            std::sqrt(correlation) * of_both + std::sqrt(1 - correlation) * alone;
        if (fits.shared[fit]) score[model][fit] = score[0][fit];
      }
    }
  }
}

Cohort draw(const Setting& setting, double correlation, std::size_t patients, std::uint64_t seed) {
  CounterRandom random({seed, patients});
  std::array<Fits, kFolds> fits;
  for (Fits& one : fits) one = draw_fits(setting, random);
  Cohort cohort(patients);
  std::array<std::size_t, 2> of_class = {};
  for (Patient& patient : cohort) {
    patient.label = random.uniform() < 0.4;
    patient.fold = of_class[static_cast<std::size_t>(patient.label)]++ % kFolds;
    add_exams(patient, setting, fits[patient.fold], correlation, random);
  }
  return cohort;
}

// `fit`, or the mean of the setting's.
std::vector<FoldScores> scores_of(const Cohort& cohort, std::size_t model, std::size_t first,
                                  std::size_t count) {
  std::vector<FoldScores> folds(kFolds);
  for (std::size_t f = 0; f < kFolds; ++f) folds[f].fold = f;
  for (std::size_t p = 0; p < cohort.size(); ++p) {
    FoldScores& fold = folds[cohort[p].fold];
    for (const auto& exam : cohort[p].score) {
      double z = 0;
      for (std::size_t fit = first; fit < first + count; ++fit)
        z += exam[model][fit] / static_cast<double>(count);
      const double score = 1 / (1 + std::exp(-z));
      fold.exams.predicted.insert(fold.exams.predicted.end(), {1 - score, score});
      fold.exams.label.push_back(cohort[p].label);
      fold.exams.decision.push_back(score > 0.5);
      fold.patient.push_back(p);
    }
  }
  return folds;
}

struct Compared {
  std::vector<FoldScores> folds;
  std::vector<std::vector<FoldScores>> fits;
};

Compared compared(const Cohort& cohort, const Setting& setting, std::size_t model) {
  Compared one{scores_of(cohort, model, 0, setting.fits), {}};
  for (std::size_t fit = 0; setting.fits > 1 && fit < setting.fits; ++fit)
    one.fits.push_back(scores_of(cohort, model, fit, 1));
  return one;
}

double mean_auroc(std::span<const ScoredExams> folds) {
  std::vector<double> values;
  for (const ScoredExams& fold : folds)
    values.push_back(compute_metric(metric_named("auroc"), fold).value);
  return mean_defined(values);
}

double difference_of(const Cohort& cohort, const Setting& setting) {
  double value[2];
  for (std::size_t model = 0; model < 2; ++model) {
    std::vector<ScoredExams> folds;
    for (const FoldScores& fold : scores_of(cohort, model, 0, setting.fits))
      folds.push_back(fold.exams);
    value[model] = mean_auroc(folds);
  }
  return value[0] - value[1];
}

Interval ours(const Compared& a, const Compared& b) {
  const Metric auroc[] = {metric_named("auroc")};
  const auto of = [&](const Compared& one) { return leave_out_patients(one.folds, 0.95, auroc); };
  const auto fits = [&](const Compared& one) {
    return one.fits.empty() ? std::vector<MetricOfFits>()
                            : figures_of_fits(one.folds, one.fits, auroc);
  };
  const Estimate estimate =
      paired_differences(of(a), of(b), fits(a), fits(b)).front().mean_over_folds;
  return {estimate.low.value, estimate.high.value};
}

// Patients of all folds together: within folds they are too few to be drawn from.
Interval bootstrap(const Compared& a, const Compared& b, std::size_t patients, std::uint64_t seed) {
  std::vector<std::vector<std::size_t>> all(1);
  for (std::size_t p = 0; p < patients; ++p) all[0].push_back(p);
  std::vector<double> differences;
  for (std::size_t r = 0; r < kResamples; ++r) {
    const auto drawn = draw_patients(all, patients, seed, r);
    double value[2];
    for (std::size_t model = 0; model < 2; ++model) {
      std::vector<ScoredExams> folds;
      for (const FoldScores& fold : (model == 0 ? a : b).folds) {
        std::vector<std::size_t> rows;
        for (std::size_t i = 0; i < fold.patient.size(); ++i)
          rows.insert(rows.end(), drawn[fold.patient[i]], i);
        folds.push_back(exams_at(fold.exams, rows));
      }
      value[model] = mean_auroc(folds);
    }
    differences.push_back(value[0] - value[1]);
  }
  return middle(std::move(differences));
}

// True where all is as it must be.
bool examine(const Setting& setting, double correlation, std::size_t patients, std::size_t cohorts,
             TextRows& rows) {
  constexpr double kLeast = 0.93, kMost = 0.97, kWidest = 1.15;
  double truth = 0;
  if (setting.skill != setting.skill_of_other || setting.shared > 0) {
    const std::size_t count = 20 * cohorts;
    for (std::size_t i = 0; i < count; ++i)
      truth += difference_of(draw(setting, correlation, patients, 1000000 + i), setting) /
               static_cast<double>(count);
  }
  Tally own, drawn;
  for (std::size_t i = 0; i < cohorts; ++i) {
    const Cohort cohort = draw(setting, correlation, patients, 1000 + i);
    const Compared a = compared(cohort, setting, 0), b = compared(cohort, setting, 1);
    own.add(ours(a, b), truth);
    drawn.add(bootstrap(a, b, patients, i), truth);
  }
  const auto n = static_cast<double>(cohorts);
  const double share = own.held / n, width = own.width / drawn.width;
  const auto chance = [&](double of) { return 2.33 * std::sqrt(of * (1 - of) / n); };
  const bool nearly_same = setting.skill == setting.skill_of_other;
  const bool held =
      share >= kLeast - chance(kLeast) && (share <= kMost + chance(kMost) || nearly_same);
  const bool narrow = width <= kWidest || setting.worth > 0 || setting.shared > 0;
  rows.push_back({setting.name, concat(patients), fixed(correlation, 2), fixed(truth, 3),
                  concat(fixed(100 * share, 1), held ? "" : "!"),
                  concat(fixed(width, 2), narrow ? "" : "!"), fixed(100 * drawn.held / n, 1)});
  return held && narrow;
}

int cover(const std::vector<std::string>& words) {
  const Sizes sizes(words, {80});
  TextRows rows = {{"MODELS", "PATIENTS", "CORRELATION", "TRUTH", "HOLD IT", "WIDTH", "BOOTSTRAP"}};
  bool fine = true;
  for (const std::size_t patients : sizes.patients)
    for (const Setting& setting : kSettings)
      for (const double correlation : {0.0, 0.5, 0.9, 0.99})
        fine &= examine(setting, correlation, patients, sizes.cohorts, rows);
  std::cout << table_text(rows);
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, cover);
}
