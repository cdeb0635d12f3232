// confound_coverage [COHORTS [PATIENTS …]]: how often columns of noise are said to predict labels,
// and how often a column that does is found. COHORTS (1000) are made of each number of PATIENTS
// (40 80 200) with 1 to 3 exams each and 20 columns: 14 of categories (2 to 8, of every other one
// most exams share a value) and 6 of numbers, half of them a patient's and half an exam's. Labels
// are a patient's:
//   two, four       classes that are equally frequent
//   rare two, four  classes, the rarest of which one patient in ten has
//   number          normally distributed
//
// Prints the percentage of cohorts with any claim, which is to be 5 at most, and of those in which
// one more column is found, which is the label but for 20 % of the patients. Marked with !, and
// exit code 1, where chance does not explain more than 5, or fewer than 95 found of two equally
// frequent classes with 80 patients or more. Then the processor time that 3 000 exams with 40
// columns take, where one or all of them predict the label.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>

#include "common/cli/cli.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "tests/train_temporal/evaluate/coverage.h"
#include "train_temporal/evaluate/confounds.h"

namespace {

using namespace coldframe;
using namespace coldframe::temporal;

constexpr std::size_t kColumns = 20, kNumbers = 6;
constexpr double kFlipped = 0.2, kErrorRate = 0.05, kPower = 0.95;
constexpr std::size_t kPowerPatients = 80;

struct Setting {
  const char* name;
  std::vector<double> shares;  // of the classes; empty: numbers
};
const Setting kSettings[] = {{"two", {0.5, 0.5}},
                             {"rare two", {0.9, 0.1}},
                             {"four", {0.25, 0.25, 0.25, 0.25}},
                             {"rare four", {0.5, 0.25, 0.15, 0.1}},
                             {"number", {}}};

int drawn(const std::vector<double>& shares, CounterRandom& random) {
  double left = random.uniform();
  std::size_t one = 0;
  while (one + 1 < shares.size() && left >= shares[one]) left -= shares[one++];
  return static_cast<int>(one);
}

ConfoundLabels make_labels(const Setting& setting, std::size_t patients, CounterRandom& random) {
  ConfoundLabels labels;
  labels.classes = setting.shares.size();
  for (std::size_t p = 0; p < patients; ++p) {
    const int label = labels.classes > 0 ? drawn(setting.shares, random) : 0;
    const double number = normal(random);
    const auto exams = 1 + static_cast<std::size_t>(3 * random.uniform());
    for (std::size_t e = 0; e < exams; ++e) {
      labels.patient.push_back(p);
      labels.label.push_back(label);
      if (labels.classes == 0) labels.number.push_back(number);
    }
  }
  return labels;
}

// Column `c` of noise: one value for each of a patient's exams, or for all of them.
ExamTrait noise(const ConfoundLabels& labels, std::size_t c, CounterRandom& random) {
  const std::size_t values = 2 + c % 7;
  const bool skewed = c % 2 == 1;
  std::vector<double> shares(
      values, skewed ? 0.3 / static_cast<double>(values - 1) : 1 / static_cast<double>(values));
  if (skewed) shares.front() = 0.7;
  ExamTrait trait{concat("noise ", c), false, {}};
  for (std::size_t i = 0; i < labels.patient.size(); ++i) {
    const bool of_patient = c / 2 % 2 == 0;
    if (of_patient && i > 0 && labels.patient[i] == labels.patient[i - 1])
      trait.values.push_back(trait.values.back());
    else
      trait.values.push_back(c % kColumns < kNumbers ? concat(normal(random))
                                                     : concat("v", drawn(shares, random)));
  }
  return trait;
}

// The class, or which half the number is in, but for some patients.
ExamTrait flipped(const ConfoundLabels& labels, CounterRandom& random) {
  ExamTrait trait{"flipped", false, {}};
  const auto classes = static_cast<int>(std::max<std::size_t>(labels.classes, 2));
  for (std::size_t i = 0; i < labels.patient.size(); ++i) {
    if (i > 0 && labels.patient[i] == labels.patient[i - 1]) {
      trait.values.push_back(trait.values.back());
      continue;
    }
    int value = labels.classes > 0 ? labels.label[i] : labels.number[i] > 0;
    if (random.uniform() < kFlipped)
      value = (value + 1 + static_cast<int>((classes - 1) * random.uniform())) % classes;
    trait.values.push_back(concat("v", value));
  }
  return trait;
}

std::vector<ExamTrait> noises(const ConfoundLabels& labels, std::size_t count,
                              CounterRandom& random) {
  std::vector<ExamTrait> traits;
  for (std::size_t c = 0; c < count; ++c) traits.push_back(noise(labels, c, random));
  return traits;
}

struct Counts {
  std::size_t claims = 0, found = 0;
};

Counts count(const Setting& setting, std::size_t seed, std::size_t cohorts, std::size_t patients) {
  Counts counts;
  for (std::size_t i = 0; i < cohorts; ++i) {
    CounterRandom random({seed, patients, i});
    const ConfoundLabels labels = make_labels(setting, patients, random);
    std::vector<ExamTrait> traits = noises(labels, kColumns, random);
    counts.claims += !find_confounds(labels, traits, 0.95).found.empty();
    traits.back() = flipped(labels, random);
    for (const Confound& one : find_confounds(labels, traits, 0.95).found)
      counts.found += one.name == "flipped";
  }
  return counts;
}

// Percent, with ! if it is off by more than three standard errors.
std::string percent(std::size_t count, std::size_t of, double limit, bool is_least) {
  const double share = static_cast<double>(count) / static_cast<double>(of);
  const double error = 3 * std::sqrt(limit * (1 - limit) / static_cast<double>(of));
  const bool wrong = is_least ? share < limit - error : share > limit + error;
  return concat(fixed(100 * share, 1), wrong ? "!" : "");
}

// `strong`: how many of 40 columns predict the label.
double seconds_of_large_cohort(const Setting& setting, std::size_t strong) {
  CounterRandom random({9, 9, 9});
  const ConfoundLabels labels = make_labels(setting, 1500, random);
  std::vector<ExamTrait> traits = noises(labels, 40 - strong, random);
  while (traits.size() < 40) traits.push_back(flipped(labels, random));
  const std::clock_t start = std::clock();
  find_confounds(labels, traits, 0.95);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

int cover(const std::vector<std::string>& words) {
  const std::size_t cohorts = !words.empty() ? std::stoul(words[0]) : 1000;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 1; i < words.size(); ++i) sizes.push_back(std::stoul(words[i]));
  if (sizes.empty()) sizes = {40, 80, 200};
  TextRows rows = {{"LABELS", "PATIENTS", "CLAIMS OF NOISE", "FOUND"}};
  bool fine = true;
  for (std::size_t s = 0; s < std::size(kSettings); ++s)
    for (const std::size_t patients : sizes) {
      const Counts counts = count(kSettings[s], s, cohorts, patients);
      const std::string claims = percent(counts.claims, cohorts, kErrorRate, false);
      const bool certain = patients >= kPowerPatients && s == 0;
      const std::string found = percent(counts.found, cohorts, certain ? kPower : 0, true);
      fine &= !claims.ends_with('!') && !found.ends_with('!');
      rows.push_back({kSettings[s].name, concat(patients), claims, found});
    }
  std::cout << table_text(rows)
            << "3 000 exams, 40 columns: " << fixed(seconds_of_large_cohort(kSettings[0], 1), 2)
            << " s of a processor where one predicts the label, "
            << fixed(seconds_of_large_cohort(kSettings[0], 40), 2) << " s where all do (of four "
            << "classes " << fixed(seconds_of_large_cohort(kSettings[2], 40), 2) << ", of numbers "
            << fixed(seconds_of_large_cohort(kSettings[4], 40), 2) << ")\n";
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return coldframe::run_main(argc, argv, cover);
}
