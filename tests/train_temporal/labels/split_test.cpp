#include "train_temporal/labels/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct Cohort {
  Labels labels;
  std::vector<std::string> patients;
};

// Random numbers of patients, exams per patient, classes and gaps. Patients are mostly of one
// class.
Cohort random_cohort(std::uint64_t seed, std::size_t folds) {
  CounterRandom random({seed});
  const std::size_t classes = 2 + random.below(3);
  const std::size_t patients = classes * folds + random.below(80);
  Cohort cohort;
  for (std::size_t p = 0; p < patients; ++p) {
    const bool owed = p < classes * folds;
    const std::size_t own = owed ? p % classes : random.below(4) ? 0 : random.below(classes);
    const std::size_t exams = 1 + (random.below(4) ? random.below(3) : random.below(12));
    for (std::size_t e = 0; e < exams; ++e) {
      const bool strays = e > 0 && random.below(10) == 0;
      const bool gap = e > 0 && random.below(15) == 0;
      cohort.labels.value.push_back(gap ? kUnlabeled
                                        : static_cast<int>(strays ? random.below(classes) : own));
      cohort.patients.push_back(concat("P", p));
    }
  }
  for (std::size_t c = 0; c < classes; ++c) cohort.labels.classes.push_back(concat("c", c));
  cohort.labels.name = "label";
  cohort.labels.unlabeled = static_cast<std::size_t>(std::ranges::count(cohort.labels.value, -1));
  return cohort;
}

std::set<std::string> patients_in(const std::vector<std::size_t>& exams, const Cohort& cohort) {
  std::set<std::string> patients;
  for (std::size_t exam : exams) patients.insert(cohort.patients[exam]);
  return patients;
}

bool disjoint(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::none_of(a, [&](const std::string& patient) { return b.contains(patient); });
}

std::set<int> classes_in(const std::vector<std::size_t>& exams, const Cohort& cohort) {
  std::set<int> classes;
  for (std::size_t exam : exams) classes.insert(cohort.labels.value[exam]);
  return classes;
}

double count(const std::vector<std::size_t>& exams, int of_class, const Cohort& cohort) {
  return static_cast<double>(std::ranges::count_if(
      exams, [&](std::size_t exam) { return cohort.labels.value[exam] == of_class; }));
}

// Largest number of exams of a class that one patient has: no assignment can be finer.
double grain(int of_class, const Cohort& cohort) {
  std::map<std::string, double> per_patient;
  for (std::size_t i = 0; i < cohort.patients.size(); ++i) {
    if (cohort.labels.value[i] == of_class) per_patient[cohort.patients[i]] += 1;
  }
  double most = 0;
  for (const auto& [patient, exams] : per_patient) most = std::max(most, exams);
  return most;
}

TEST(MakeFolds, HoldsEveryExamOutOnceAndNeverSplitsAPatient) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::size_t folds = 3 + seed % 8;
    const Cohort cohort = random_cohort(seed, folds);
    const SplitSet set = make_folds(cohort.labels, cohort.patients, folds, seed);
    ASSERT_EQ(set.splits.size(), folds);
    std::vector<int> held_out(cohort.labels.value.size(), 0);
    for (const Split& split : set.splits) {
      const auto train = patients_in(split.train, cohort);
      const auto validation = patients_in(split.validation, cohort);
      const auto test = patients_in(split.test, cohort);
      ASSERT_TRUE(disjoint(train, validation) && disjoint(train, test) &&
                  disjoint(validation, test))
          << "seed " << seed;
      ASSERT_EQ(split.train.size() + split.validation.size() + split.test.size(),
                cohort.labels.labeled());
      for (std::size_t exam : split.test) ++held_out[exam];
    }
    for (std::size_t i = 0; i < held_out.size(); ++i) {
      ASSERT_EQ(held_out[i], cohort.labels.value[i] == kUnlabeled ? 0 : 1) << "seed " << seed;
    }
  }
}

TEST(MakeFolds, GivesEveryPartEveryClass) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::size_t folds = 3 + seed % 8;
    const Cohort cohort = random_cohort(seed, folds);
    const std::size_t classes = cohort.labels.classes.size();
    for (const Split& split : make_folds(cohort.labels, cohort.patients, folds, seed).splits) {
      ASSERT_EQ(classes_in(split.test, cohort).size(), classes) << "seed " << seed;
      ASSERT_EQ(classes_in(split.train, cohort).size(), classes) << "seed " << seed;
      ASSERT_EQ(classes_in(split.validation, cohort).size(), classes) << "seed " << seed;
    }
  }
}

TEST(MakeFolds, BalancesClassesToWithinAPatient) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::size_t folds = 3 + seed % 8;
    const Cohort cohort = random_cohort(seed, folds);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < cohort.patients.size(); ++i) all.push_back(i);
    for (const Split& split : make_folds(cohort.labels, cohort.patients, folds, seed).splits) {
      for (int c = 0; c < static_cast<int>(cohort.labels.classes.size()); ++c) {
        const double fair = count(all, c, cohort) / static_cast<double>(folds);
        const double off = std::abs(count(split.test, c, cohort) - fair);
        worst = std::max(worst, off / grain(c, cohort));
      }
    }
  }
  EXPECT_LE(worst, 1.5);
}

TEST(MakeFolds, TakesAboutAFifthOfTheOtherPatientsForValidation) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Cohort cohort = random_cohort(seed, 5);
    for (const Split& split : make_folds(cohort.labels, cohort.patients, 5, seed).splits) {
      const double validation = static_cast<double>(patients_in(split.validation, cohort).size());
      const double train = static_cast<double>(patients_in(split.train, cohort).size());
      EXPECT_NEAR(validation, 0.2 * (validation + train), 2.5 + 0.04 * train) << "seed " << seed;
    }
  }
}

TEST(MakeFolds, DependsOnTheSeedAndOnNothingElse) {
  const Cohort cohort = random_cohort(3, 5);
  const auto first = make_folds(cohort.labels, cohort.patients, 5, 1).splits;
  const auto again = make_folds(cohort.labels, cohort.patients, 5, 1).splits;
  const auto other = make_folds(cohort.labels, cohort.patients, 5, 2).splits;
  EXPECT_EQ(first[0].test, again[0].test);
  EXPECT_EQ(first[4].validation, again[4].validation);
  EXPECT_NE(first[0].test, other[0].test);

  // The exams in reverse order: the same patients are held out together.
  Cohort reversed = cohort;
  std::ranges::reverse(reversed.labels.value);
  std::ranges::reverse(reversed.patients);
  const auto turned = make_folds(reversed.labels, reversed.patients, 5, 1).splits;
  for (std::size_t f = 0; f < 5; ++f) {
    EXPECT_EQ(patients_in(first[f].test, cohort), patients_in(turned[f].test, reversed));
    EXPECT_EQ(patients_in(first[f].validation, cohort),
              patients_in(turned[f].validation, reversed));
  }
}

TEST(MakeFolds, SplitsAnewForEveryRepeat) {
  const Cohort cohort = random_cohort(4, 5);
  const auto splits = make_folds(cohort.labels, cohort.patients, 5, 1, 3).splits;
  ASSERT_EQ(splits.size(), 15u);
  EXPECT_EQ(splits[7].repeat, 1u);
  EXPECT_EQ(splits[7].fold, 2u);
  EXPECT_NE(splits[0].test, splits[5].test);
  EXPECT_NE(splits[5].test, splits[10].test);
}

Cohort one_exam_each(const std::vector<int>& values) {
  Cohort cohort;
  cohort.labels.value = values;
  cohort.labels.classes = {"healthy", "ill"};
  cohort.labels.name = "label";
  for (std::size_t i = 0; i < values.size(); ++i) cohort.patients.push_back(concat("P", i));
  return cohort;
}

TEST(MakeFolds, WarnsOfAClassThatValidationCannotHave) {
  const Cohort cohort = one_exam_each({0, 0, 0, 0, 0, 0, 1, 1});
  const SplitSet set = make_folds(cohort.labels, cohort.patients, 2, 1);
  ASSERT_EQ(set.warnings.size(), 2u);
  EXPECT_THAT(set.warnings[0], HasSubstr("validation part of repeat 0, fold 0 has no exam of "
                                         "class 'ill'"));
  for (const Split& split : set.splits) EXPECT_EQ(classes_in(split.train, cohort).size(), 2u);
}

template <typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MakeFolds, RefusesTooFewPatientsWithTheCounts) {
  const Cohort few = one_exam_each({0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
  const auto message = [&](const Cohort& cohort, std::size_t folds) {
    return message_of([&] { make_folds(cohort.labels, cohort.patients, folds, 0); });
  };
  const Cohort one = one_exam_each({0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  EXPECT_EQ(message(one, 5),
            "--folds 5 needs at least 2 patients of every class of 'label', but there are: "
            "'healthy' 9 patients, 'ill' 1 patient; leave the rare class out (--drop-class), or "
            "learn it with another as one (--merge-classes)");
  EXPECT_THAT(message(few, 11), HasSubstr("10 patients with a label, but --folds 11 needs"));
  EXPECT_THAT(message(few, 1), HasSubstr("at least 2"));
  Cohort same = one_exam_each({0, 1, 0, 1, 0, 1});  // six exams of two patients
  for (std::size_t i = 0; i < 6; ++i) same.patients[i] = i % 2 ? "A" : "B";
  EXPECT_THAT(message(same, 3), HasSubstr("2 patients with a label"));
}

TEST(MakeFolds, SpreadsAClassOfFewerPatientsThanFoldsAndSaysSo) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const int ill : {2, 3, 4}) {
      std::vector<int> classes(20, 0);
      std::fill_n(classes.begin(), ill, 1);
      const Cohort cohort = one_exam_each(classes);
      const SplitSet set = make_folds(cohort.labels, cohort.patients, 5, seed);
      int with = 0;
      for (const Split& split : set.splits) {
        EXPECT_TRUE(classes_in(split.train, cohort).contains(1));
        with += classes_in(split.test, cohort).contains(1);
      }
      EXPECT_EQ(with, ill);
      EXPECT_THAT(set.warnings,
                  Contains(HasSubstr(concat(5 - ill, " of 5 folds ", ill == 4 ? "is" : "are",
                                            " tested without class 'ill'"))));
    }
  }
}

TEST(MakeFolds, RefusesAFoldThatLeavesOnePatientForTwoParts) {
  Cohort both = one_exam_each({0, 1, 0, 1});
  both.patients = {"A", "A", "B", "B"};
  EXPECT_THAT(message_of([&] { make_folds(both.labels, both.patients, 2, 0); }),
              HasSubstr("leaves 1 patient for training and validation"));
}

TEST(MakeHoldout, SplitsByPatientInSixtyTwentyTwenty) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Cohort cohort = random_cohort(seed, 10);
    const Split split = make_holdout(cohort.labels, cohort.patients, seed).splits.at(0);
    const auto train = patients_in(split.train, cohort);
    const auto validation = patients_in(split.validation, cohort);
    const auto test = patients_in(split.test, cohort);
    const double all = static_cast<double>(train.size() + validation.size() + test.size());
    ASSERT_EQ(split.train.size() + split.validation.size() + split.test.size(),
              cohort.labels.labeled());
    EXPECT_NEAR(static_cast<double>(train.size()) / all, 0.6, 0.12);
    EXPECT_NEAR(static_cast<double>(validation.size()) / all, 0.2, 0.09);
    EXPECT_NEAR(static_cast<double>(test.size()) / all, 0.2, 0.09);
    for (const auto* part : {&split.train, &split.validation, &split.test}) {
      EXPECT_EQ(classes_in(*part, cohort).size(), cohort.labels.classes.size());
    }
  }
}

TEST(MakeHoldout, RefusesAClassWithFewerThanThreePatients) {
  const Cohort cohort = one_exam_each({0, 0, 0, 0, 1, 1});
  EXPECT_THAT(message_of([&] { make_holdout(cohort.labels, cohort.patients, 0); }),
              HasSubstr("'healthy' 4 patients, 'ill' 2 patients"));
}

TEST(PatientsOf, TakesThoseThatDifferInCaseOrSpacesAsOnePerson) {
  std::vector<cache::ExamInfo> exams(44);
  Labels labels;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    exams[i].id = concat("e", i);
    exams[i].patient = concat(i % 2 ? "P" : "p ", i / 2 + 100);
    labels.value.push_back(0);
  }
  exams[42].patient = "Mu\u0308ller";
  exams[43].patient = "M\u00dcLLER";
  std::vector<std::string> said;
  const auto patients = patients_of(exams, labels, false, said);
  EXPECT_EQ(patients[0], "P100");
  EXPECT_EQ(std::set<std::string>(patients.begin(), patients.end()).size(), 22u);
  EXPECT_THAT(said, ElementsAre(AllOf(HasSubstr("taken as one person"),
                                      HasSubstr("'p 100' as 'P100'"), HasSubstr("17 more"))));
  EXPECT_THAT(message_of([&] { patients_of(exams, labels, true, said); }),
              HasSubstr("22 have several exams ('Mu\u0308ller' has 2)"));
}

TEST(PatientsOf, AsksWhereIdsAreEqualAsNumbers) {
  std::vector<cache::ExamInfo> exams(2);
  Labels labels;
  labels.value = {0, 1};
  std::vector<std::string> said;
  exams[0].id = "a", exams[1].id = "b";
  exams[0].patient = "123";
  for (const char* other : {"0123", "123.0"}) {
    exams[1].patient = other;
    EXPECT_THAT(message_of([&] { patients_of(exams, labels, false, said); }),
                AllOf(HasSubstr("'123' (exam 'a')"), HasSubstr(concat("'", other, "' (exam 'b')")),
                      HasSubstr("--equal-numbers different")));
    const auto same = patients_of(exams, labels, false, said, EqualNumbers::kSame);
    EXPECT_EQ(same[0], same[1]);
    const auto two = patients_of(exams, labels, false, said, EqualNumbers::kDifferent);
    EXPECT_NE(two[0], two[1]);
  }
}

TEST(PatientsOf, AsksForAWordWhenPatientsAreMissing) {
  std::vector<cache::ExamInfo> exams(3);
  for (std::size_t i = 0; i < 3; ++i) exams[i].id = concat("e", i);
  Labels labels;
  labels.value = {0, 1, 0};
  std::vector<std::string> said;
  const auto message = [&] { return message_of([&] { patients_of(exams, labels, false, said); }); };
  EXPECT_THAT(message(),
              AllOf(HasSubstr("no labelled exam has a patient"), HasSubstr("--exam-is-patient")));
  exams[1].patient = "P";
  EXPECT_THAT(message(), AllOf(HasSubstr("2 of 3 labelled exams have no patient, the first 'e0'"),
                               Not(HasSubstr("--exam-is-patient"))));
  EXPECT_EQ(patients_of(exams, labels, true, said), (std::vector<std::string>{"e0", "e1", "e2"}));
  exams[0].patient = exams[2].patient = "Q";
  EXPECT_EQ(patients_of(exams, labels, false, said), (std::vector<std::string>{"Q", "P", "Q"}));
  EXPECT_THAT(message_of([&] { patients_of(exams, labels, true, said); }),
              HasSubstr("1 has several exams ('Q' has 2); leave the option out"));
}

TEST(PatientsOf, AsksForNoPatientOfAnExamWithoutALabel) {
  std::vector<cache::ExamInfo> exams(2);
  exams[0].patient = "P";
  Labels labels;
  labels.value = {1, kUnlabeled};
  labels.unlabeled = 1;
  std::vector<std::string> said;
  EXPECT_EQ(patients_of(exams, labels, false, said), (std::vector<std::string>{"P", ""}));
}

}  // namespace
}  // namespace coldframe::temporal
