// What every task promises, whatever it is.
#include "train_temporal/tasks/task_kind.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
namespace {

class EveryTask : public ::testing::TestWithParam<std::string> {
 protected:
  EveryTask() {
    target_.name = "target";
    target_.task = *find_task(GetParam());
    if (target_.has_classes()) target_.classes = {"low", "high"};
    if (target_.task == Task::kMulticlass || target_.task == Task::kOrdinal)
      target_.classes = {"a", "b", "c"};
    if (target_.is_survival()) target_.horizons = {10, 20};
    target_.intervals = 3;
    labels_ = {1, 0};
    if (target_.is_survival()) labels_ = {12.5, survival_label(7, false)};
    if (!target_.has_classes() && !target_.is_survival()) labels_ = {-3.25, 1e6};
    const std::vector<double> training = {30, 12.5, survival_label(7, false), 2};
    kind().learn_labels(reading_, target_, training);
    if (target_.task == Task::kCox) kind().learn_outputs(reading_, {{0, 1, 2, 3}, training}, {});
  }
  const TaskKind& kind() const { return target_.kind(); }

  Target target_;
  std::vector<double> labels_;
  Readout reading_;
};

TEST_P(EveryTask, IsFoundByItsName) {
  EXPECT_EQ(task_name(target_.task), GetParam());
  EXPECT_EQ(kind().task, target_.task);
}

TEST_P(EveryTask, ReadsTheLabelsThatItWrites) {
  ScoredExams exams;
  for (const double label : labels_) {
    const std::vector<std::string> fields = kind().label_fields(target_, label);
    EXPECT_EQ(fields.size(), kind().label_columns().size());
    const double read = kind().label_from(target_, fields);
    EXPECT_EQ(read, label);
    EXPECT_EQ(std::signbit(read), std::signbit(label));
    EXPECT_FALSE(kind().label_text(target_, label).empty());
    kind().add_label(exams, label);
  }
  EXPECT_EQ(exams.size(), labels_.size());
  EXPECT_EQ(exams.number.size(), target_.has_classes() ? 0 : labels_.size());
  for (const std::string& field : kind().label_fields(target_, std::nan(""))) EXPECT_EQ(field, "");
  const std::vector<std::string> wrong(kind().label_columns().size(), "x");
  EXPECT_TRUE(std::isnan(kind().label_from(target_, wrong)));
}

TEST_P(EveryTask, HasAColumnForEachScore) {
  const std::vector<double> outputs(5 * target_.outputs(), 0.3);
  const std::vector<double> scores = scores_of(target_, reading_, outputs);
  EXPECT_EQ(scores.size(), 5 * target_.scores());
  EXPECT_EQ(kind().score_columns(target_).size(), target_.scores());
  EXPECT_EQ(kind().score_names(target_).size(), target_.scores());
  EXPECT_EQ(decide(target_, scores, 0.5).size(), 5);
}

TEST_P(EveryTask, HasTheGradientOfItsLoss) {
  const TargetLoss loss(target_, {}, equal_weights(target_.classes.size()), reading_);
  if (loss.is_of_batch()) {  // cox_loss() has a test of its own
    EXPECT_EQ(loss.weight(labels_[0]), 1);
    EXPECT_EQ(loss.weight(labels_[1]), 0);
    return;
  }
  const double step = 1e-5, total = 4;
  for (const double label : labels_) {
    std::vector<double> z(target_.outputs(), 0.4);
    std::vector<float> gradient(z.size());
    loss(z, label, total, gradient.data());
    for (std::size_t k = 0; k < z.size(); ++k) {
      std::vector<double> above = z, below = z;
      above[k] += step;
      below[k] -= step;
      const double rise = loss(above, label, total, nullptr) - loss(below, label, total, nullptr);
      EXPECT_NEAR(gradient[k], rise / (2 * step) / total, 1e-4 * (1 + std::abs(gradient[k])));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, ::testing::ValuesIn(task_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace coldframe::temporal
