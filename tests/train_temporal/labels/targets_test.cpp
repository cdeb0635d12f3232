// Tasks by the type of a column, several targets at once, and splits that suit all of them.
#include "train_temporal/labels/labels.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/labels/target.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Labels labels_of(const std::vector<std::string>& values, std::optional<Task> task = std::nullopt) {
  return labels_from_values(values, {}, {"t", "", {}, task});
}

TEST(Task, FollowsFromTheColumn) {
  std::vector<std::string> many, grades;
  for (int i = 0; i < 42; ++i) {
    many.push_back(std::to_string(i % 21));
    grades.push_back(std::to_string(i % 20));
  }
  const std::pair<std::vector<std::string>, Task> cases[] = {
      {{"0", "1", ""}, Task::kBinary},
      {{"0.5", "1.5", "0.5"}, Task::kBinary},
      {{"ill", "healthy"}, Task::kBinary},
      {{"0", "1", "2"}, Task::kMulticlass},
      {{"0", "1.5", "2"}, Task::kRegression},
      {{"1", "2", "x"}, Task::kMulticlass},
      {{"1e3", "-2.5", "nan", "3"}, Task::kRegression},
      {many, Task::kRegression},
      {grades, Task::kMulticlass}};
  for (const auto& [values, task] : cases) {
    EXPECT_EQ(labels_of(values).task, task) << join(values, " ");
  }
  EXPECT_EQ(labels_of({"0", "1", "2"}, Task::kOrdinal).outputs(), 2u);
  EXPECT_EQ(labels_of({"0", "1"}, Task::kMulticlass).task, Task::kBinary);
  EXPECT_EQ(labels_of({"7", "8", "9"}, Task::kRegression).task, Task::kRegression);
}

TEST(Regression, MasksGapsAndStandardisesByTheTrainingPart) {
  const Labels labels = labels_of({"1.5", "", "4", "nan", "100"}, Task::kRegression);
  EXPECT_EQ(labels.unlabeled, 2u);
  EXPECT_EQ(labels.at(2, 0), 4);
  EXPECT_TRUE(std::isnan(labels.at(1, 0)));
  const Readout readout = readout_of(labels, {0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(readout.mean, 2.75);
  EXPECT_DOUBLE_EQ(readout.deviation, 1.25);
  EXPECT_EQ(readout_of(labels, {1, 3}), Readout{});
  EXPECT_EQ(readout_of(labels, {4}).deviation, 1);
}

TEST(TargetList, ReadsNamesAndTasks) {
  const std::vector<std::string> columns = {"a",    "b",    "odd,name", "x:regression",
                                            "days", "died", "cox"};
  const auto read = [&](const char* text, const char* task = "auto") {
    return parse_targets(text, task, columns);
  };
  EXPECT_THAT(read("a"), ElementsAre(TargetRequest{"a", {}}));
  EXPECT_THAT(read("a, b:ordinal", "regression"), ElementsAre(TargetRequest{"a", Task::kRegression},
                                                              TargetRequest{"b", Task::kOrdinal}));
  EXPECT_THAT(read("a,b", "multilabel"),
              ElementsAre(TargetRequest{"a", Task::kBinary}, TargetRequest{"b", Task::kBinary}));
  EXPECT_THAT(read("a:auto", "ordinal"), ElementsAre(TargetRequest{"a", {}}));
  EXPECT_THAT(read("odd,name"), ElementsAre(TargetRequest{"odd,name", {}}));
  EXPECT_THAT(read("x:regression"), ElementsAre(TargetRequest{"x:regression", {}}));
  EXPECT_THAT(read("x:regression:binary"),
              ElementsAre(TargetRequest{"x:regression", Task::kBinary}));
  const TargetRequest cox{"days", Task::kCox, "died"};
  EXPECT_THAT(read("days:died"), ElementsAre(cox));
  EXPECT_THAT(read("days:died", "cox"), ElementsAre(cox));
  EXPECT_THAT(read("days : died : cox, a"), ElementsAre(cox, TargetRequest{"a", {}}));
  EXPECT_THROW(read("days:cox"), ConfigError);  // the task, whatever columns there are
  EXPECT_THROW(read("days:died:regression"), ConfigError);
  EXPECT_THROW(read("days", "cox"), ConfigError);
}

struct TaskCohort {
  std::vector<Labels> all;
  std::vector<std::string> patients;
};

// A number, a rare label and a grade, each with gaps of its own, two exams to a patient.
TaskCohort mixed_cohort(std::uint64_t seed, std::size_t exams) {
  CounterRandom random({seed});
  std::vector<std::string> age, rare, grade;
  TaskCohort cohort;
  for (std::size_t i = 0; i < exams; ++i) {
    age.push_back(random.below(5) == 0 ? "" : concat(static_cast<double>(random.below(900)) / 10));
    rare.push_back(random.below(4) == 0 ? "" : i < 3 || random.below(12) == 0 ? "1" : "0");
    grade.push_back(random.below(4) == 0 ? "" : concat(random.below(4)));
    cohort.patients.push_back(concat("P", i / 2));
  }
  for (auto& [values, task] : {std::pair{age, Task::kRegression}, std::pair{rare, Task::kBinary},
                               std::pair{grade, Task::kOrdinal}}) {
    cohort.all.push_back(labels_of(values, task));
  }
  return cohort;
}

TEST(Folds, OfSeveralTargetsHoldOutEveryLabelledExamOnce) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const TaskCohort cohort = mixed_cohort(seed, 80);
    const Targets targets(cohort.all);
    std::vector<int> held_out(80, 0);
    for (const Split& split : make_folds(targets, cohort.patients, 4, seed).splits) {
      EXPECT_EQ(split.train.size() + split.validation.size() + split.test.size(),
                targets.labeled());
      for (std::size_t exam : split.test) ++held_out[exam];
      check_patients_apart(split, cohort.patients);
    }
    for (std::size_t i = 0; i < 80; ++i) ASSERT_EQ(held_out[i], targets.labeled(i));
  }
}

TEST(Folds, OfARegressionHaveTheSameSpread) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TaskCohort cohort = mixed_cohort(seed, 300);
    const Labels& age = cohort.all[0];
    const double mean = readout_of(age, age.labeled_exams()).mean;
    const SplitSet set = make_folds(age, cohort.patients, 5, seed);
    EXPECT_THAT(set.warnings, IsEmpty());
    for (const Split& split : set.splits) {
      EXPECT_NEAR(readout_of(age, split.test).mean, mean, 6) << seed;
      std::set<int> bins;
      for (std::size_t exam : split.test) bins.insert(age.value[exam]);
      EXPECT_EQ(bins.size(), age.bins) << seed;
    }
  }
}

TEST(Folds, WarnOfARareLabelAmongSeveralTargetsAndRefuseItAlone) {
  std::vector<std::string> common, rare;
  std::vector<std::string> patients;
  for (int i = 0; i < 30; ++i) {
    common.push_back(concat(i % 2));
    rare.push_back(i < 2 ? "1" : "0");
    patients.push_back(concat(i));
  }
  std::vector<std::string> single(30, "0");
  single.front() = "1";
  EXPECT_THROW(make_folds(labels_of(single), patients, 5, 1), ConfigError);
  Labels second = labels_of(rare);
  second.name = "rare";
  const SplitSet set = make_folds(Targets(std::vector{labels_of(common), second}), patients, 5, 1);
  ASSERT_FALSE(set.warnings.empty());
  EXPECT_THAT(set.warnings.front(), HasSubstr("'1' of 'rare'"));
}

TEST(Bins, ShareEqualNumbers) {
  std::vector<std::string> values(40, "1");
  for (int i = 0; i < 10; ++i) values.push_back(concat(i + 2));
  const Labels labels = labels_of(values, Task::kRegression);
  EXPECT_EQ(labels.bins, 5u);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(labels.value[i], 0);
  EXPECT_EQ(labels.value[49], 4);
}

TEST(BalancedWeights, GiveEveryClassThatThereIsTheSameWeightAsAWhole) {
  const std::vector<std::size_t> count = {6, 0, 2};
  EXPECT_THAT(balanced_weights(count), ElementsAre(8.0 / 12, 1.0, 2.0));
}

TEST(Decisions, OfGradesAreMedians) {
  const Target grade{"g", Task::kOrdinal, {"0", "1", "2"}};
  EXPECT_THAT(decide(grade, std::vector{0.4, 0.2, 0.4, 0.5, 0.1, 0.4, 0.1, 0.3, 0.6}, 0.5),
              ElementsAre(1, 0, 2));
  // Two outputs: P(class > 0), P(class > 1 | class > 0).
  const auto p = scores_of(grade, {}, std::vector{std::log(3.0), 0.0});
  EXPECT_DOUBLE_EQ(p[0], 0.25);
  EXPECT_DOUBLE_EQ(p[1], 0.375);
  EXPECT_DOUBLE_EQ(p[2], 0.375);
}

}  // namespace
}  // namespace coldframe::temporal
