// What every task promises, whatever it is.
#include "train_temporal/labels/task_kind.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "common/cli/error.h"
#include "train_temporal/labels/cox.h"

namespace coldframe::temporal {
namespace {

using ::testing::HasSubstr;

// The operations on one row of numbers.
class RowOperations : public KeepingOperations<std::vector<double>> {
 public:
  Value divided(Value x, double divisor) override {
    return of_each(x, [=](double one) { return one / divisor; });
  }
  Value softmax(Value x) override {
    double sum = 0;
    for (const double one : at(x)) sum += std::exp(one);
    return of_each(x, [=](double one) { return std::exp(one) / sum; });
  }
  Value sigmoid(Value x) override { return of_each(x, logistic); }
  Value cumulative_product(Value x) override {
    double product = 1;
    return of_each(x, [&](double one) { return product *= one; });
  }
  Value sum(Value x, const std::vector<double>& weights) override {
    return keep({std::inner_product(weights.begin(), weights.end(), at(x).begin(), 0.0)});
  }
  Value column(Value x, std::size_t number) override { return keep({at(x).at(number)}); }

 private:
  template <class Function>
  Value of_each(Value x, Function function) {
    std::vector<double> values = at(x);
    for (double& value : values) value = function(value);
    return keep(values);
  }
};

class EveryTask : public ::testing::TestWithParam<std::string> {
 protected:
  EveryTask() {
    target_.name = "target";
    target_.task = *find_task(GetParam());
    if (kind().names_classes()) target_.classes = {"low", "high"};
    if (target_.task == Task::kMulticlass || target_.task == Task::kOrdinal)
      target_.classes = {"a", "b", "c"};
    if (target_.scale() == Scale::kTime) {
      target_.event = "died";
      target_.horizons = {10, 20};
    }
    labels_ = {1, 0};
    if (target_.is_timed()) labels_ = {12.5, survival_label(7, false)};
    if (!target_.has_classes() && !target_.is_timed()) labels_ = {-3.25, 1e6};
    const std::vector<double> training = {30, 12.5, survival_label(7, false), 2};
    kind().learn_labels(readout_, target_, training);
    if (target_.task == Task::kCox) kind().learn_outputs(readout_, {{0, 1, 2, 3}, training}, {});
  }
  const TaskKind& kind() const { return target_.kind(); }

  Target target_;
  std::vector<double> labels_;
  Readout readout_;
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
  const std::vector<double> scores = scores_of(target_, readout_, outputs);
  EXPECT_EQ(scores.size(), 5 * target_.scores());
  EXPECT_EQ(kind().score_columns(target_).size(), target_.scores());
  EXPECT_EQ(kind().score_names(target_).size(), target_.scores());
  EXPECT_EQ(decide(target_, scores, 0.5).size(), 5);
}

TEST_P(EveryTask, ExplainsOneOutput) {
  const std::vector<double> outputs(target_.outputs(), 0.3);
  const std::vector<double> scores = scores_of(target_, readout_, outputs);
  const int decision = decide(target_, scores, 0.5).front();
  const std::optional<std::size_t> of_class = kind().explained_class(decision);
  RowOperations on;
  const std::vector<double> explained =
      on.at(kind().explained(on, target_, readout_, of_class.value_or(0), on.keep(outputs)));
  ASSERT_EQ(explained.size(), 1);
  double expected = of_class ? scores[*of_class] : scores.front();
  if (kind().names_classes() && !of_class) {  // grades: the expected one
    expected = 0;
    for (std::size_t c = 0; c < scores.size(); ++c) expected += static_cast<double>(c) * scores[c];
  }
  EXPECT_NEAR(readout_.mean + readout_.deviation * explained.front(), expected, 1e-9);
  EXPECT_FALSE(kind().examples(labels_[0], scores, decision).empty());
}

TEST_P(EveryTask, IsStoredAndReadBack) {
  Json json = to_json(target_);
  add_readout(json, target_, readout_);
  EXPECT_EQ(target_from_json(json), target_);
  EXPECT_EQ(readout_from_json(json, target_), readout_);
  json["classes"] = {"alone"};
  EXPECT_THAT([&] { target_from_json(json); },
              ::testing::ThrowsMessage<DataError>(
                  ::testing::AllOf(HasSubstr("1 classes"), HasSubstr("; expected "))));
  if (target_.scale() != Scale::kTime) return;
  json["classes"] = Json::array();
  json["horizons"] = {20, 10};
  EXPECT_THAT([&] { target_from_json(json); }, ::testing::ThrowsMessage<DataError>(::testing::AllOf(
                                                   HasSubstr("2 horizons"), HasSubstr("ascend"))));
}

TEST_P(EveryTask, HasTheGradientOfItsLoss) {
  const TargetLoss loss(target_, {}, equal_weights(target_.classes.size()), readout_);
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
