#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <xmmintrin.h>

#include <filesystem>

#include "common/cli/error.h"
#include "common/torch/device.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/fit/trainer.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    folder_ = fs::temp_directory_path() / ("coldframe_training_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

FitOptions quick(std::size_t epochs) {
  FitOptions options;
  options.epochs = epochs;
  options.learning_rate = 5e-3;
  return options;
}

TEST_F(Training, CanLearnASmallSetByHeart) {
  const Dataset dataset = testing::noise_dataset({4, 5, 6, 7, 8, 4, 5, 6}, 10);
  const Targets labels = testing::classes_of({0, 1, 1, 0, 1, 0, 0, 1});
  Split split;
  split.train = {0, 1, 2, 3, 4, 5, 6, 7};
  split.validation = split.test = split.train;
  ModelConfig config = testing::small_config(dataset);
  config.dropout = 0;
  FitOptions options = quick(150);
  options.noise = 0;
  const FitTask task{dataset, labels, split, config, options, 1};
  EXPECT_LT(testing::run_to_end(task).history.back().train, 0.02);
}

// Sums in another order round otherwise, so equality is to float32 precision; with Torch's own
// generator the losses would differ in the second digit.
TEST_F(Training, GivesTheSameLossesInMicroBatchesOfAnySize) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(30, 7), 10);
  std::vector<int> classes;
  for (int i = 0; i < 30; ++i) classes.push_back(i % 3 == 0);
  const Targets labels = testing::classes_of(classes);
  const Split split = testing::thirds(30);
  FitOptions options = quick(4);
  options.batch = 8;
  options.train_frames = 5;
  options.objective.class_weights = true;
  options.objective.label_smoothing = 0.1;
  options.noise = 0.5;
  options.mixup = 0.4;
  const auto losses = [&](std::size_t micro_batch) {
    options.micro_batch = micro_batch;
    const FitTask task{dataset, labels, split, testing::small_config(dataset), options, 9};
    return testing::run_to_end(task).history;
  };
  const auto whole = losses(0);
  for (std::size_t micro_batch : {1, 3, 4}) {
    const auto micro_batches = losses(micro_batch);
    for (std::size_t epoch = 0; epoch < whole.size(); ++epoch) {
      EXPECT_NEAR(micro_batches[epoch].train, whole[epoch].train, 1e-5) << micro_batch;
      EXPECT_NEAR(micro_batches[epoch].validation, whole[epoch].validation, 1e-5) << micro_batch;
    }
  }
}

TEST_F(Training, ResumedFromACheckpointEqualsUninterruptedToTheBit) {
  Targets labels;
  const Dataset dataset = testing::ramp_dataset(labels, 60, 6, 6);
  const Split split = testing::thirds(60);
  FitOptions options = quick(8);
  options.noise = 0.5;
  options.mixup = 0.4;
  options.stopping_metric = StoppingMetric::kMetric;
  for (const char* model : {"gru", "lstm", "transformer", "tcn"}) {
    SCOPED_TRACE(model);
    const FitTask task{dataset, labels, split, testing::small_config(dataset, model), options, 4};
    const FitRecord whole = testing::run_to_end(task);

    Trainer first(task);
    for (int epoch = 0; epoch < 3; ++epoch) first.run_epoch();
    write_checkpoint(folder_ / "state", first.state());
    Trainer second(task);
    second.restore(read_checkpoint(folder_ / "state"));
    EXPECT_EQ(second.history().size(), 3u);
    while (!second.finished()) second.run_epoch();
    const FitRecord resumed = second.finish();

    EXPECT_EQ(resumed.test_logits, whole.test_logits);
    EXPECT_EQ(resumed.best_epoch, whole.best_epoch);
    EXPECT_EQ(resumed.micro_batches, whole.micro_batches);
    ASSERT_EQ(resumed.history.size(), whole.history.size());
    EXPECT_EQ(resumed.history.back().train, whole.history.back().train);
  }
}

// What a blanked feature leaves of gradients is denormal.
TEST_F(Training, CountsDenormalsAsZeroAndLosesNothingByIt) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(36, 6), 24);
  std::vector<int> classes;
  for (int i = 0; i < 36; ++i) classes.push_back(i % 5 < 2);
  const Targets labels = testing::classes_of(classes);
  const Split split = testing::thirds(36);
  ModelConfig config = testing::small_config(dataset);
  set_model(config, kBlank);
  const FitTask task{dataset, labels, split, config, quick(20), 3};
  const auto outputs = [&] {
    _mm_setcsr(_mm_getcsr() & ~static_cast<unsigned>(_MM_EXCEPT_MASK));
    return testing::run_to_end(task).test_logits;
  };
  const auto met_denormals = [] { return (_mm_getcsr() & _MM_EXCEPT_DENORM) != 0; };
  at::globalContext().setFlushDenormal(false);
  const auto exact = outputs();
  EXPECT_TRUE(met_denormals()) << "there are none to flush";
  set_torch_threads(1);
  const auto flushed = outputs();
  EXPECT_FALSE(met_denormals());
  at::globalContext().setFlushDenormal(false);
  ASSERT_EQ(flushed.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(flushed[i], exact[i], 1e-6);
}

TEST_F(Training, EndsAFitThatDivergesWithItsBestEpochOrWithNone) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(12, 4), 5);
  const Targets labels = testing::classes_of({0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  const Split split = testing::thirds(12);
  const FitTask task{dataset, labels, split, testing::small_config(dataset), quick(9), 1};
  Trainer trainer(task);
  trainer.run_epoch();
  FitState state = trainer.state();
  state.parameters = torch::full_like(state.parameters, NAN);
  trainer.restore(state);
  trainer.run_epoch();
  ASSERT_TRUE(trainer.finished());
  const FitRecord result = trainer.finish();
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(result.history.size(), 1u);
  for (double logit : result.test_logits) EXPECT_TRUE(std::isfinite(logit));

  Trainer never(task);
  state = never.state();
  state.parameters = torch::full_like(state.parameters, NAN);
  never.restore(state);
  never.run_epoch();
  EXPECT_TRUE(never.finished());
  EXPECT_TRUE(never.finish().diverged);
  EXPECT_TRUE(never.history().empty());
}

TEST_F(Training, RefusesTheCheckpointOfAnotherFit) {
  const Dataset dataset = testing::noise_dataset(std::vector<std::int64_t>(12, 4), 5);
  const Targets labels = testing::classes_of({0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  const Split split = testing::thirds(12);
  Trainer first({dataset, labels, split, testing::small_config(dataset), quick(2), 1});
  Trainer other_seed({dataset, labels, split, testing::small_config(dataset), quick(2), 2});
  EXPECT_THROW(other_seed.restore(first.state()), DataError);
}

TEST_F(Training, KeepsTheWeightsOfTheBestEpoch) {
  Targets labels;
  const Dataset dataset = testing::ramp_dataset(labels, 60, 6, 6);
  const Split split = testing::thirds(60);
  FitOptions options = quick(40);
  options.patience = 4;
  const FitTask task{dataset, labels, split, testing::small_config(dataset, "shuffled"),
                     options, 4};
  const FitRecord result = testing::run_to_end(task);
  const double kept =
      Objective(labels, split.train, {}).of(result.validation_logits, split.validation).mean();
  EXPECT_DOUBLE_EQ(kept, result.history[result.best_epoch].validation);
  for (const EpochLosses& losses : result.history) EXPECT_LE(kept, losses.validation);
  EXPECT_EQ(result.history.size(), std::min<std::size_t>(40, result.best_epoch + 5));
}

TEST(Optimizer, FollowsWarmUpAndCosine) {
  EXPECT_DOUBLE_EQ(schedule_factor(Schedule::kCosine, 0, 100, 10), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(Schedule::kCosine, 9, 100, 10), 1.0);
  EXPECT_NEAR(schedule_factor(Schedule::kCosine, 55, 100, 10), 0.5, 1e-12);
  EXPECT_LT(schedule_factor(Schedule::kCosine, 99, 100, 10), 0.001);
  EXPECT_DOUBLE_EQ(schedule_factor(Schedule::kConstant, 99, 100, 10), 1.0);
}

// One step with gradients of 0 and a learning rate of 1 leaves 1 − decay, as far as there is any.
TEST(Optimizer, DecaysWhatHasSeveralDimensionsButForWhatIsNamed) {
  torch::nn::Module module;
  const torch::Tensor kernel = module.register_parameter("kernel", torch::ones({2, 3, 4}));
  const torch::Tensor positions = module.register_parameter("pos_embed", torch::ones({1, 5, 2}));
  ThreadTeam team;
  AdamW({{module, 1, {"pos_embed"}}}, 0.25).step(1, team);
  EXPECT_TRUE(kernel.eq(0.75).all().item<bool>());
  EXPECT_TRUE(positions.eq(1).all().item<bool>());
}

TEST(Optimizer, EqualsTorchsAdamW) {
  const auto loss = [](torch::nn::Linear& layer) {
    return (layer(torch::full({2, 3}, 0.7)) - 1).square().sum();
  };
  torch::nn::Linear ours(3, 4), theirs(3, 4);
  torch::NoGradGuard copying;
  theirs->weight.copy_(ours->weight);
  theirs->bias.copy_(ours->bias);
  at::AutoGradMode with_gradients(true);
  AdamW optimizer({{*ours}}, 0.1);
  ThreadTeam team;
  using torch::optim::AdamWOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{theirs->weight},
                      std::make_unique<AdamWOptions>(AdamWOptions(0.01).weight_decay(0.1)));
  groups.emplace_back(std::vector{theirs->bias},
                      std::make_unique<AdamWOptions>(AdamWOptions(0.01).weight_decay(0)));
  torch::optim::AdamW reference(groups);
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_gradients();
    loss(ours).backward();
    optimizer.clip_gradients(0, team);
    optimizer.step(0.01, team);
    reference.zero_grad();
    loss(theirs).backward();
    reference.step();
  }
  EXPECT_TRUE(torch::allclose(ours->weight, theirs->weight, 0, 1e-6));
  EXPECT_TRUE(torch::allclose(ours->bias, theirs->bias, 0, 1e-6));
}

}  // namespace
}  // namespace coldframe::temporal
