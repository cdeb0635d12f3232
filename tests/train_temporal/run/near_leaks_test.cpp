#include "train_temporal/run/covariates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/labels/cox.h"

namespace coldframe::temporal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kCohortSize = 60;

Labels binary() {
  Labels labels;
  labels.name = "label";
  labels.classes = {"no", "yes"};
  for (std::size_t i = 0; i < kCohortSize; ++i) labels.value.push_back(i % 3 == 0);
  return labels;
}

Labels numbers(Task task) {
  Labels labels;
  labels.name = "days";
  labels.task = task;
  if (task == Task::kCox) labels.event = "died";
  labels.value.assign(kCohortSize, 0);
  for (std::size_t i = 0; i < kCohortSize; ++i)
    labels.number.push_back(task == Task::kCox ? survival_label(10.0 + i, i % 4 > 0) : 10.0 + i);
  return labels;
}

// Each exam is of a patient of its own.
std::vector<std::string> leaks(const Labels& labels, bool category, const auto& value_of) {
  CovariateColumn column{"x", category, {}};
  std::vector<std::size_t> patient;
  for (std::size_t i = 0; i < kCohortSize; ++i) {
    column.values.push_back(value_of(i));
    patient.push_back(i);
  }
  return near_leaks(column, labels, patient);
}

TEST(NearLeaks, ANumberThatTellsTheClassIsNamed) {
  const auto one_off = [](std::size_t i) {
    return concat(i == 0 ? 0.85 : i % 3 == 0 ? -5.0 : 0.1 * i);
  };
  EXPECT_THAT(leaks(binary(), false, one_off),
              ElementsAre(AllOf(HasSubstr("covariate 'x': it alone reaches an AUROC of 0."),
                                HasSubstr("for 'yes' of 'label'"))));
  EXPECT_THAT(leaks(binary(), false, [](std::size_t i) { return concat(i % 7); }), IsEmpty());
}

TEST(NearLeaks, ACategoryCountsFromFivePatientsOn) {
  const auto ward = [](std::size_t i) { return i == 1 || i % 3 == 0 ? "A" : "B"; };
  EXPECT_THAT(leaks(binary(), true, ward), ElementsAre(HasSubstr("alone reaches an AUROC")));
  // Rooms of two or three people of one kind tell of these alone.
  EXPECT_THAT(leaks(binary(), true,
                    [](std::size_t i) { return concat("room ", i / 6, i % 3 == 0 ? "a" : "b"); }),
              IsEmpty());
}

TEST(NearLeaks, WhoHasAValueMayTellTheAnswer) {
  CounterRandom random({1});
  const auto biopsy = [&](std::size_t i) {
    return i % 3 == 0 ? concat(random.uniform()) : std::string();
  };
  EXPECT_THAT(leaks(binary(), false, biopsy),
              ElementsAre(HasSubstr("which exams have a value alone reaches an AUROC of 1.000")));
}

TEST(NearLeaks, NumbersAndTimesAreRanked) {
  const auto falls = [](std::size_t i) { return concat(100 - static_cast<int>(i - i % 2)); };
  EXPECT_THAT(leaks(numbers(Task::kRegression), false, falls),
              ElementsAre(HasSubstr("a rank correlation of 1.000 for 'days'")));
  EXPECT_THAT(leaks(numbers(Task::kCox), false, falls),
              ElementsAre(HasSubstr("a concordance of 0.99")));
  const auto folded = [](std::size_t i) { return concat(i % 20); };
  EXPECT_THAT(leaks(numbers(Task::kRegression), false, folded), IsEmpty());
  EXPECT_THAT(leaks(numbers(Task::kCox), false, folded), IsEmpty());
}

}  // namespace
}  // namespace coldframe::temporal
