#include <gmock/gmock.h>
#include <torch/optim/adamw.h>

#include <filesystem>

#include "common/cli/error.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/apply/ensemble.h"
#include "train_temporal/training/checkpoint.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
    const auto pieces = losses(micro_batch);
    for (std::size_t epoch = 0; epoch < whole.size(); ++epoch) {
      EXPECT_NEAR(pieces[epoch].train, whole[epoch].train, 1e-5) << micro_batch;
      EXPECT_NEAR(pieces[epoch].validation, whole[epoch].validation, 1e-5) << micro_batch;
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
    const FitResult whole = testing::run_to_end(task);

    Trainer first(task);
    for (int epoch = 0; epoch < 3; ++epoch) first.run_epoch();
    write_checkpoint(folder_ / "state", first.state());
    Trainer second(task);
    second.restore(read_checkpoint(folder_ / "state"));
    EXPECT_EQ(second.history().size(), 3u);
    while (!second.finished()) second.run_epoch();
    const FitResult resumed = second.finish();

    EXPECT_EQ(resumed.test_logits, whole.test_logits);
    EXPECT_EQ(resumed.best_epoch, whole.best_epoch);
    EXPECT_EQ(resumed.pieces, whole.pieces);
    ASSERT_EQ(resumed.history.size(), whole.history.size());
    EXPECT_EQ(resumed.history.back().train, whole.history.back().train);
  }
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
  const FitResult result = trainer.finish();
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
  const FitResult result = testing::run_to_end(task);
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

class ModelFile : public Training {
 protected:
  void SetUp() override {
    Training::SetUp();
    const Dataset dataset = testing::noise_dataset({3}, 5);
    card_.config = testing::small_config(dataset);
    card_.targets = {{"label", Task::kBinary, {"no", "yes"}}};
    card_.readings.resize(1);
    card_.recipe.features = {{"weights", "w"}};
    weights_ = state_dict(*make_model(card_.config, 1));
  }

  std::string error_of_reading() const {
    write_model(folder_ / "m.safetensors", weights_, card_);
    try {
      read_model(folder_ / "m.safetensors");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  ModelCard card_;
  StateDict weights_;
};

TEST_F(ModelFile, ReadsBackWhatWasWritten) {
  card_.readings[0].temperature = 1.25;
  card_.fit_seed = 0xfedcba9876543210;
  EXPECT_EQ(error_of_reading(), "");
  const TrainedModel read = read_model(folder_ / "m.safetensors");
  EXPECT_EQ(read.card.config, card_.config);
  EXPECT_EQ(read.card.readings[0].temperature, 1.25);
  EXPECT_EQ(read.card.fit_seed, card_.fit_seed);
  EXPECT_EQ(read.card.recipe.feature_digest(), card_.recipe.feature_digest());
  for (const auto& [name, tensor] : state_dict(*read.model)) {
    EXPECT_TRUE(tensor.equal(weights_.at(name))) << name;
  }
}

TEST_F(ModelFile, RefusesNumbersThatWouldPredictNothing) {
  const ModelCard good = card_;
  for (double temperature : {0.0, -1.0}) {
    card_.readings[0].temperature = temperature;
    EXPECT_THAT(error_of_reading(), HasSubstr("temperature")) << temperature;
  }
  card_ = good;
  card_.readings[0].threshold = NAN;
  EXPECT_THAT(error_of_reading(), HasSubstr("m.safetensors"));
  card_ = good;
  weights_["head.bias"][1] = NAN;
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("head.bias"), HasSubstr("m.safetensors")));
}

TEST_F(ModelFile, NamesTheFileWhoseConfigurationIsWrong) {
  card_.config.architecture = ModelKind::kClock;
  card_.config.order = FrameOrder::kMiddle;
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("order of frames"), HasSubstr("m.safetensors")));
}

// 65536 classes would need a head of the same number of rows.
TEST_F(ModelFile, ComparesTheHeadBeforeItBuildsTheModel) {
  card_.config.classes = 65536;
  card_.targets[0] = {"label", Task::kMulticlass, std::vector<std::string>(65536, "c")};
  EXPECT_THAT(error_of_reading(), HasSubstr("'head.weight' is [2, 16], expected [65536, 16]"));
}

TEST_F(ModelFile, NamesWhatIsWrongWithATensor) {
  const StateDict good = weights_;
  weights_.erase("head.bias");
  EXPECT_NE(error_of_reading().find("lacks the tensor 'head.bias'"), std::string::npos);
  weights_ = good;
  weights_["head.extra"] = torch::zeros({1});
  EXPECT_NE(error_of_reading().find("'head.extra'"), std::string::npos);
  weights_ = good;
  weights_["head.weight"] = torch::zeros({3, 16});
  EXPECT_NE(error_of_reading().find("[3, 16], expected [2, 16]"), std::string::npos);
}

// Else rows of one width are read as if they had another.
TEST_F(ModelFile, IsNotAppliedToRowsOfAnotherWidth) {
  EXPECT_EQ(error_of_reading(), "");
  const Ensemble ensemble({folder_ / "m.safetensors"});
  ensemble.require_width(5);
  EXPECT_THROW(ensemble.require_width(12), DataError);
  card_.arrangement.streams = "stream";
  EXPECT_THAT(error_of_reading(), HasSubstr("do not agree on streams"));
  card_.config.dimension = 6;
  card_.config.streams = {"FA", "ICGA"};
  weights_ = state_dict(*make_model(card_.config, 1));
  EXPECT_EQ(error_of_reading(), "");
  card_.arrangement.streams.clear();
  EXPECT_THAT(error_of_reading(), HasSubstr("do not agree on streams"));
}

TEST_F(ModelFile, RefusesWhatNoTrainingWrites) {
  ModelConfig streams = card_.config;
  streams.dimension = 6;
  streams.streams = {"FA", "ICGA"};
  Json damaged = to_json(streams);
  EXPECT_NO_THROW(model_config_from_json(damaged));
  damaged["only_stream"] = -9;
  EXPECT_THROW(model_config_from_json(damaged), DataError);
  for (const char* model : {"transformer", "tcn"}) {
    ModelConfig config = card_.config;
    set_model(config, model);
    EXPECT_NO_THROW(model_config_from_json(to_json(config)));
    damaged = to_json(config);
    damaged["bidirectional"] = true;
    EXPECT_THROW(model_config_from_json(damaged), DataError) << model;
    config.time_encoding = TimeEncoding::kDecay;
    EXPECT_THROW(model_config_from_json(to_json(config)), DataError) << model;
  }
}

TEST(CovariatesOfAFile, AreThoseOfATraining) {
  const Json age = {{"name", "age"}, {"missing", false}, {"mean", 50.0}, {"deviation", 9.0}};
  const Json sex = {{"name", "sex"}, {"missing", true}, {"categories", {"F", "M"}}};
  EXPECT_EQ(CovariateEncoding::from_json(Json::array({age, sex})).width(), 4);
  const auto refused = [](const Json& json) {
    EXPECT_THROW(CovariateEncoding::from_json(json), DataError) << json;
  };
  refused(age);
  refused(Json::array({age, age}));
  Json other = sex;
  other["categories"] = {"F", "F"};
  refused(Json::array({other}));
  other = age;
  other["deviation"] = 5e-324;
  refused(Json::array({other}));
}

// 65536 hidden units would need 48 GiB; the file's own shapes are compared first.
TEST_F(ModelFile, DoesNotAllocateWhatItsConfigurationClaims) {
  card_.config.hidden = 65536;
  EXPECT_THAT(error_of_reading(), HasSubstr("head.weight"));
}

}  // namespace
}  // namespace coldframe::temporal
