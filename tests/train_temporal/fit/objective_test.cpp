// Every task's loss and its gradient, written out, against LibTorch's autograd.
#include "train_temporal/fit/objective.h"

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

constexpr double kMasked = std::numeric_limits<double>::quiet_NaN();

// z: [n, outputs] in double; value: by row. Returns the sum of losses.
using Reference = torch::Tensor (*)(const torch::Tensor& z, const std::vector<double>& value);

torch::Tensor index_of(const std::vector<double>& value) {
  std::vector<std::int64_t> index(value.begin(), value.end());
  return torch::tensor(index, torch::kInt64);
}

torch::Tensor cross_entropy(const torch::Tensor& z, const std::vector<double>& value) {
  return torch::nll_loss(z.log_softmax(1), index_of(value), {}, at::Reduction::Sum);
}

torch::Tensor focal(const torch::Tensor& z, const std::vector<double>& value) {
  const auto log_p = z.log_softmax(1).gather(1, index_of(value).unsqueeze(1));
  return -((1 - log_p.exp()).pow(1.7) * log_p).sum();
}

// The loss as Shi, Cao and Raschka write it: for each threshold, over the exams that have passed
// the one before.
torch::Tensor corn(const torch::Tensor& z, const std::vector<double>& value) {
  const torch::Tensor y = torch::tensor(value, torch::kFloat64);
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (std::int64_t k = 0; k < z.size(1); ++k) {
    const torch::Tensor asked = y > static_cast<double>(k) - 1;
    const torch::Tensor more = (y > static_cast<double>(k)).to(torch::kFloat64);
    const torch::Tensor each =
        torch::binary_cross_entropy_with_logits(z.select(1, k), more, {}, {}, at::Reduction::None);
    sum = sum + (each * asked).sum();
  }
  return sum;
}

torch::Tensor standardised(const std::vector<double>& value) {
  return ((torch::tensor(value, torch::kFloat64) - 3.0) / 2.5).unsqueeze(1);
}

torch::Tensor squared(const torch::Tensor& z, const std::vector<double>& value) {
  return torch::mse_loss(z, standardised(value), at::Reduction::Sum);
}

torch::Tensor huber(const torch::Tensor& z, const std::vector<double>& value) {
  return torch::huber_loss(z, standardised(value), at::Reduction::Sum, 0.8);
}

constexpr double kSmoothing = 0.15;

torch::Tensor smoothed(const torch::Tensor& z, const std::vector<double>& value) {
  return torch::cross_entropy_loss(z, index_of(value), {}, at::Reduction::Sum, -100, kSmoothing);
}

struct LossCase {
  const char* name;
  Task task;
  std::size_t classes;
  LossOptions options;
  Reference reference;
  double smoothing = 0;
};

class EveryLoss : public ::testing::TestWithParam<LossCase> {};

INSTANTIATE_TEST_SUITE_P(
    Tasks, EveryLoss,
    ::testing::Values(LossCase{"binary", Task::kBinary, 2, {}, cross_entropy},
                      LossCase{"multiclass", Task::kMulticlass, 5, {}, cross_entropy},
                      LossCase{"smoothed", Task::kMulticlass, 4, {}, smoothed, kSmoothing},
                      LossCase{"focal", Task::kMulticlass, 3, {LossKind::kFocal, 1.7}, focal},
                      LossCase{"ordinal", Task::kOrdinal, 4, {}, corn},
                      LossCase{"regression", Task::kRegression, 0, {}, squared},
                      LossCase{"huber", Task::kRegression, 0, {LossKind::kHuber, 0.8}, huber}),
    [](const auto& of) { return of.param.name; });

TEST_P(EveryLoss, EqualsAutogradInValueAndGradient) {
  const LossCase& of = GetParam();
  const Target target{"t", of.task, std::vector<std::string>(of.classes, "c")};
  const TargetLoss loss(target, of.options, equal_weights(of.classes), {3.0, 2.5, 1, 0.5},
                        of.smoothing);
  const auto width = static_cast<std::int64_t>(target.outputs());
  CounterRandom random({7});
  std::vector<double> outputs, value;
  for (std::int64_t row = 0; row < 40; ++row) {
    for (std::int64_t c = 0; c < width; ++c) outputs.push_back(6 * testing::noise(random));
    value.push_back(of.classes > 0 ? static_cast<double>(random.below(of.classes))
                                   : 10 * testing::noise(random));
  }
  torch::Tensor z = torch::tensor(outputs, torch::kFloat64).view({-1, width});
  z.requires_grad_();
  const torch::Tensor expected = of.reference(z, value);
  expected.backward();
  double sum = 0;
  for (std::size_t row = 0; row < value.size(); ++row) {
    std::vector<float> gradient(target.outputs());
    const auto own = std::span(outputs).subspan(row * target.outputs(), target.outputs());
    sum += loss(own, value[row], 1, gradient.data());
    for (std::size_t c = 0; c < gradient.size(); ++c) {
      const auto theirs = z.grad()[static_cast<int>(row)][static_cast<int>(c)].item<double>();
      EXPECT_NEAR(gradient[c], theirs, 1e-6) << "row " << row << ", output " << c;
    }
  }
  EXPECT_NEAR(sum, expected.item<double>(), 1e-9 * sum);
}

TEST_P(EveryLoss, GivesNothingWithoutALabel) {
  const LossCase& of = GetParam();
  const Target target{"t", of.task, std::vector<std::string>(of.classes, "c")};
  const TargetLoss loss(target, of.options, equal_weights(of.classes), {});
  const std::vector<double> z(target.outputs(), 3.0);
  std::vector<float> gradient(target.outputs(), NAN);
  EXPECT_EQ(loss(z, kMasked, 1, gradient.data()), 0);
  EXPECT_EQ(loss.weight(kMasked), 0);
  for (float value : gradient) EXPECT_EQ(value, 0);
}

TEST_P(EveryLoss, StaysFiniteWhereOutputsAreExtreme) {
  const LossCase& of = GetParam();
  const Target target{"t", of.task, std::vector<std::string>(of.classes, "c")};
  const TargetLoss loss(target, of.options, equal_weights(of.classes), {});
  for (const double size : {-1e4, 1e4}) {
    std::vector<double> z(target.outputs(), 0.0);
    z[0] = size;
    std::vector<float> gradient(target.outputs(), NAN);
    for (const double value : {0.0, 1.0}) {
      EXPECT_TRUE(std::isfinite(loss(z, value, 1, gradient.data())));
      for (float one : gradient) EXPECT_TRUE(std::isfinite(one));
    }
  }
}

// Several targets of different tasks with gaps, through the fused kernels and through a model that
// LibTorch differentiates, against losses that LibTorch differentiates itself.
class SeveralTargets : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    Labels grade, age;
    grade.name = "grade";
    grade.task = Task::kOrdinal;
    grade.classes = {"0", "1", "2"};
    age.name = "age";
    age.task = Task::kRegression;
    age.bins = 1;
    std::vector<int> classes;
    for (std::size_t exam = 0; exam < exams_; ++exam) {
      classes.push_back(exam % 4 == 0 ? kUnlabeled : static_cast<int>(exam % 2));
      grade.value.push_back(exam % 5 == 1 ? kUnlabeled : static_cast<int>(exam % 3));
      age.value.push_back(exam % 3 == 2 ? kUnlabeled : 0);
      age.number.push_back(static_cast<double>(exam * exam % 7));
      all_.push_back(exam);
    }
    targets_ = Targets(std::vector{testing::classes_of(classes)[0], grade, age});
    items_ = testing::all_frames(dataset_, all_);
  }

  // The mean over targets of their mean losses over labelled exams.
  torch::Tensor reference(const torch::Tensor& outputs, const PackedBatch& batch) const {
    torch::Tensor sum = torch::zeros({}, torch::kFloat64);
    const Readout scale = readout_of(targets_[2], all_);
    for (std::size_t t = 0; t < 3; ++t) {
      std::vector<std::int64_t> rows;
      std::vector<double> value;
      double weight = 0;
      for (std::size_t i = 0; i < batch.exams.size(); ++i) {
        const double label = targets_[t].at(batch.exams[i], 0);
        if (std::isnan(label)) continue;
        rows.push_back(static_cast<std::int64_t>(i));
        value.push_back(t == 2 ? 3.0 + 2.5 * (label - scale.mean) / scale.deviation : label);
        weight += t == 1 ? std::min(label + 1, 2.0) : 1;
      }
      const std::int64_t first = t == 0 ? 0 : t == 1 ? 2 : 4, width = t == 2 ? 1 : 2;
      const torch::Tensor z = outputs.to(torch::kFloat64)
                                  .narrow(1, first, width)
                                  .index_select(0, torch::tensor(rows, torch::kInt64));
      sum = sum + (t == 0 ? cross_entropy : t == 1 ? corn : squared)(z, value) / weight;
    }
    return sum / 3;
  }

  const std::size_t exams_ = 17;
  Dataset dataset_ =
      testing::noise_dataset({5, 12, 1, 7, 12, 3, 9, 2, 2, 6, 4, 8, 11, 1, 5, 7, 3}, 9);
  Targets targets_;
  std::vector<std::size_t> all_;
  std::vector<BatchItem> items_;
};

TEST_F(SeveralTargets, GiveTheGradientsOfTheMeanOfTheirLosses) {
  for (const char* name : {"gru", "lstm"}) {
    ModelConfig config = testing::small_config(dataset_, name);
    config.outputs = static_cast<std::int64_t>(targets_.outputs());
    const auto model = make_model(config, 3);
    AdamW optimizer({{*model}}, 0);
    const PackedBatch batch = make_batch(dataset_, items_);
    const torch::Tensor expected = reference(compute_logits(*model, dataset_, batch), batch);
    expected.backward();
    const torch::Tensor gradients = optimizer.gradients().clone();
    const Objective objective(targets_, all_, {});
    for (const std::size_t micro_batch : {0, 4}) {
      optimizer.zero_gradients();
      const LossSum sum =
          testing::batch_gradients(*model, dataset_, items_, objective, Dropout(), micro_batch);
      EXPECT_NEAR(sum.mean(), expected.item<double>(), 1e-6) << name;
      EXPECT_TRUE(torch::allclose(optimizer.gradients(), gradients, 1e-5, 1e-6)) << name;
      if (!FusedGru::supports(*model)) continue;
      ThreadTeam team(2);
      FusedStep fused(*model, config, dataset_, optimizer.gradients(), team);
      EXPECT_NEAR(fused.compute(items_, objective, Dropout(), micro_batch).mean(),
                  expected.item<double>(), 1e-6);
      optimizer.clip_gradients(0, team, fused.gradient_parts());
      EXPECT_TRUE(torch::allclose(optimizer.gradients(), gradients, 1e-5, 1e-6));
    }
  }
}

// Frames of different exams lie beside each other in a packed batch; each has its own label.
TEST(FramesAsRows, GiveTheGradientsOfTheirOwnLabels) {
  at::set_num_threads(1);
  const Dataset dataset = testing::noise_dataset({5, 12, 1, 7, 12, 3, 9, 2, 2}, 9);
  Labels labels;
  labels.per_frame = true;
  labels.classes = {"0", "1"};
  std::vector<std::size_t> exams;
  for (std::size_t exam = 0; exam < dataset.sequences.size(); ++exam) {
    std::vector<double>& frame = labels.frame.emplace_back();
    for (std::int64_t t = 0; t < dataset.sequences[exam].frames(); ++t) {
      frame.push_back(t % 4 == 3 ? kMasked : static_cast<double>((t + std::int64_t(exam)) % 2));
    }
    labels.value.push_back(0);
    exams.push_back(exam);
  }
  const Targets targets(labels);
  ModelConfig config = testing::small_config(dataset);
  config.pool = TemporalPool::kNone;
  const auto model = make_model(config, 3);
  AdamW optimizer({{*model}}, 0);
  const Objective objective(targets, exams, {});
  const Dropout dropout(0.4, 7, 2);
  std::vector<BatchItem> items;
  const FrameSampler sampler(FrameOrder::kInOrder, 6, 1);
  torch::Tensor sum = torch::zeros({});
  double count = 0;
  for (std::size_t exam : exams) {  // each exam on its own: nothing is packed there
    const Sequence& sequence = dataset.sequences[exam];
    items.push_back({exam, sampler.for_training(sequence.frames(), sequence.key, 0)});
    const auto log_p = compute_logits(*model, dataset, make_batch(dataset, {items.back()}), dropout)
                           .log_softmax(1);
    for (std::size_t i = 0; i < items.back().frames.features.size(); ++i) {
      const double label = targets[0].at(exam, std::size_t(items.back().frames.features[i]));
      if (std::isnan(label)) continue;
      sum = sum - log_p[static_cast<int>(i)][static_cast<int>(label)];
      count += 1;
    }
  }
  (sum / count).backward();
  const torch::Tensor gradients = optimizer.gradients().clone();
  optimizer.zero_gradients();
  const LossSum loss = testing::batch_gradients(*model, dataset, items, objective, dropout, 4);
  EXPECT_NEAR(loss.mean(), sum.item<double>() / count, 1e-6);
  EXPECT_TRUE(torch::allclose(optimizer.gradients(), gradients, 1e-5, 1e-6));
  ThreadTeam team(2);
  FusedStep fused(*model, config, dataset, optimizer.gradients(), team);
  EXPECT_NEAR(fused.compute(items, objective, dropout, 0).mean(), loss.mean(), 1e-6);
  optimizer.clip_gradients(0, team, fused.gradient_parts());
  EXPECT_TRUE(torch::allclose(optimizer.gradients(), gradients, 1e-5, 1e-6));
}

}  // namespace
}  // namespace coldframe::temporal
