#include "train_temporal/evaluate/confounds.h"

#include <gtest/gtest.h>

#include "common/text/text.h"
#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

// One exam of each patient.
ConfoundLabels labels_of(const std::vector<int>& label, std::size_t classes) {
  ConfoundLabels labels;
  labels.label = label;
  labels.classes = classes;
  for (std::size_t i = 0; i < label.size(); ++i) labels.patient.push_back(i);
  return labels;
}

TEST(Confounds, FindATraitThatGivesAwayOneOfThreeClasses) {
  std::vector<int> label;
  ExamTrait trait{"device", false, {}};
  for (int i = 0; i < 90; ++i) {
    label.push_back(i % 3);
    trait.values.push_back(i % 3 == 2 ? "A" : "B");
  }
  const Confounds result = find_confounds(labels_of(label, 3), {trait}, 0.95);
  ASSERT_EQ(result.found.size(), 1u);
  // 1 for the class itself; for each other one, half of the rest have the value that it has.
  EXPECT_NEAR(result.found.front().figure.value.value, (1 + 0.75 + 0.75) / 3, 1e-9);
  EXPECT_EQ(result.p_limit, 0.05);
  EXPECT_NEAR(result.found.front().p, 1.0 / 40, 1e-12);  // no draw is as good
  EXPECT_EQ(result.found.front().one_class.value, "A");
}

TEST(Confounds, AreFoundAlthoughOneClassHasASinglePatient) {
  std::vector<int> label = {2};
  ExamTrait trait{"site", false, {"s0"}};
  for (int i = 0; i < 60; ++i) {
    label.push_back(i % 2);
    trait.values.push_back(concat("s", i % 10 < 2 ? 1 - i % 2 : i % 2));
  }
  const Confounds result = find_confounds(labels_of(label, 3), {trait}, 0.95);
  ASSERT_EQ(result.found.size(), 1u);
  const Estimate& figure = result.found.front().figure;
  EXPECT_GT(figure.value.value, 0.65);
  EXPECT_FALSE(figure.low.defined());
  EXPECT_NE(figure.low.undefined.find("lacks a class"), std::string::npos);
}

TEST(Confounds, OfPatientsWithSeveralExamsMoveWithThePatient) {
  ConfoundLabels labels;
  labels.classes = 2;
  ExamTrait trait{"the number of the patient's exams", true, {}};
  for (std::size_t patient = 0; patient < 60; ++patient) {
    const std::size_t exams = 1 + 2 * (patient % 2);
    for (std::size_t e = 0; e < exams; ++e) {
      labels.patient.push_back(patient);
      labels.label.push_back(static_cast<int>(patient % 2));
      trait.values.push_back(concat(exams));
    }
  }
  EXPECT_EQ(find_confounds(labels, {trait}, 0.95).found.size(), 1u);
}

// All limits of fifths are 0.
TEST(Confounds, FindANumberThatIsTheSameInMostExams) {
  std::vector<int> label;
  ExamTrait trait{"dose", false, {}};
  for (int i = 0; i < 120; ++i) {
    label.push_back(i % 2);
    trait.values.push_back(i % 6 == 1 ? concat(1 + i) : "0");  // in a third of those of class 1
  }
  const Confounds result = find_confounds(labels_of(label, 2), {trait}, 0.95);
  ASSERT_EQ(result.found.size(), 1u);
  EXPECT_TRUE(result.found.front().numeric);
  EXPECT_NEAR(result.found.front().figure.value.value, 0.5 + 1.0 / 6, 1e-9);
}

// Of 30 patients with eight exams each, a value of their own says nothing, although it would of 240
// patients.
TEST(Confounds, CountPatientsAndNotExams) {
  std::size_t found = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CounterRandom random({seed});
    ConfoundLabels labels;
    labels.classes = 2;
    ExamTrait trait{"site", false, {}};
    for (std::size_t patient = 0; patient < 30; ++patient) {
      const std::uint64_t label = random.below(2), site = random.below(3);
      for (std::size_t e = 0; e < 8; ++e) {
        labels.patient.push_back(patient);
        labels.label.push_back(static_cast<int>(label));
        trait.values.push_back(concat("s", site));
      }
    }
    found += find_confounds(labels, {trait}, 0.95).found.size();
  }
  EXPECT_LE(found, 5u);  // of 40 at 5 %: more would be 1 in 70
}

struct Told {
  const char* of;
  bool may_be_label;
  std::string (*value)(int label, int i);
};

// A grade of severity, a coarser class, and a number that fills in are the label in other words; a
// site that says much of it is not.
TEST(Confounds, AreToldFromTheLabelInOtherWords) {
  const Told cases[] = {
      {"a finer grade, with exceptions", true,
       [](int label, int i) { return concat(i % 16 == 0 ? 1 : 2 + 2 * label + i % 2); }},
      {"whether there is anything", true, [](int label, int) { return concat(label > 0); }},
      {"a grade that half of the patients lack", true,
       [](int label, int i) { return i % 2 ? "" : concat(label); }},
      {"a measurement of it", true, [](int label, int i) { return concat(100 * label + i % 9); }},
      {"a site of nine in ten", false,
       [](int label, int i) { return concat("s", i % 10 == 0 ? 1 - (label > 0) : label > 0); }},
      {"many small sites", false,
       [](int label, int i) { return concat("s", (label > 0 ? 0 : 41) + i % 41); }},
      {"a finding that most lack", false,
       [](int label, int i) { return concat(label > 0 && i % 4 == 0); }}};
  for (const Told& one : cases) {
    std::vector<int> label;
    ExamTrait trait{one.of, false, {}};
    for (int i = 0; i < 240; ++i) {
      label.push_back(i % 3);
      trait.values.push_back(one.value(i % 3, i / 3));
    }
    const Confounds result = find_confounds(labels_of(label, 3), {trait}, 0.95);
    ASSERT_EQ(result.found.size(), 1u) << one.of;
    EXPECT_EQ(result.found.front().may_be_label, one.may_be_label) << one.of;
    EXPECT_TRUE(result.not_found.empty());
  }
  // Where one class is frequent, most values tell it, of a site as of anything.
  std::vector<int> rare;
  ExamTrait site{"site", false, {}};
  for (int i = 0; i < 240; ++i) {
    rare.push_back(i % 24 == 0);
    site.values.push_back(rare.back() || i % 3 == 1 ? "b" : "a");
  }
  const Confounds result = find_confounds(labels_of(rare, 2), {site}, 0.95);
  ASSERT_EQ(result.found.size(), 1u);
  EXPECT_FALSE(result.found.front().may_be_label);
}

TEST(Confounds, NameWhatWasLookedAtAndNotFound) {
  std::vector<int> label;
  ExamTrait site{"site", false, {}}, size{"the frame size", true, {}};
  for (int i = 0; i < 80; ++i) {
    label.push_back(i % 2);
    site.values.push_back(concat(i % 2));
    size.values.push_back(concat(i / 2 % 2));
  }
  const Confounds result = find_confounds(labels_of(label, 2), {site, size}, 0.95);
  ASSERT_EQ(result.not_found.size(), 1u);
  EXPECT_EQ(result.not_found.front().name, "the frame size");
  EXPECT_TRUE(result.not_found.front().of_file);
}

// Each fold holds one patient, and so one number.
TEST(Confounds, AreNotFoundWhereNoFoldHasTwoNumbers) {
  ConfoundLabels labels{{0, 0, 1, 1}, {0, 0, 0, 0}, 0, {1, 1, 2, 2}};
  const ExamTrait trait{"site", false, {"a", "b", "a", "b"}};
  const Confounds result = find_confounds(labels, {trait}, 0.95);
  EXPECT_EQ(result.columns, 1u);
  EXPECT_TRUE(result.found.empty());
  labels.patient = {0, 0, 0, 0};
  EXPECT_EQ(find_confounds(labels, {trait}, 0.95).looked_at(), 0u);
}

}  // namespace
}  // namespace coldframe::temporal
