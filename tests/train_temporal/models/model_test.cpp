#include <gmock/gmock.h>

#include <algorithm>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/device_draws.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/operations.h"

namespace coldframe::temporal {
namespace {

// A model by its name, in a form that it can have. All names and their forms are tested: a new
// model joins by its name.
struct ModelVariant {
  std::string name;  // of the test
  ModelConfig config;
};

void PrintTo(const ModelVariant& variant, std::ostream* out) {
  *out << variant.name;
}

constexpr std::int64_t kFeatureCount = 8, kCovariateCount = 2;

std::vector<ModelVariant> model_variants() {
  const Dataset dataset = testing::noise_dataset({3}, kFeatureCount);
  std::vector<ModelVariant> variants;
  for (const std::string& name :
       model_names([](const NamedModel& model) { return !model.twin && !model.chooses; })) {
    const ModelConfig plain = testing::small_config(dataset, name);
    const Architecture& model = *plain.architecture;
    const auto add = [&](const char* form, const auto& change) {
      ModelConfig config = plain;
      change(config);
      if (impossible(config).empty()) variants.push_back({name + form, config});
    };
    add("", [&](ModelConfig& config) {
      if (!model.sees_frames && model.takes_covariates) config.covariates = kCovariateCount;
    });
    if (!model.ordered) continue;
    add("_last_time", [](ModelConfig& config) {
      config.pool = TemporalPool::kLast;
      config.time = true;
    });
    add("_mean_deep", [](ModelConfig& config) {
      config.pool = TemporalPool::kMean;
      config.layers = 2;
    });
    add("_attention_time_deeper", [](ModelConfig& config) {
      config.layers = 3;
      config.time = true;
    });
    add("_frame_covariates", [](ModelConfig& config) {
      config.covariates = kCovariateCount;
      config.frame_covariates = true;
      config.dimension += kCovariateCount;
    });
  }
  return variants;
}

class EveryModel : public ::testing::TestWithParam<ModelVariant> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
  const Architecture& architecture() const { return *config().architecture; }

  // Exams are few: their covariates are the first rows of a table.
  std::shared_ptr<SequenceModel> model(std::uint64_t seed = 3) const {
    return model_of(config(), seed);
  }
  static std::shared_ptr<SequenceModel> model_of(const ModelConfig& config, std::uint64_t seed) {
    const auto made = make_model(config, seed);
    if (config.covariates > 0)
      made->covariates = torch::linspace(-1, 1, 8 * config.covariates).view({8, -1});
    return made;
  }
};

INSTANTIATE_TEST_SUITE_P(Model, EveryModel, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) {
                           std::string name = variant.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

torch::Tensor logits_of(SequenceModel& model, const ModelConfig& config, const Dataset& dataset,
                        const std::vector<std::size_t>& exams) {
  torch::NoGradGuard no_grad;
  ThreadTeam team;
  const auto values = predict_logits(model, {dataset, config, 0, exams.size()}, exams, team);
  return torch::tensor(values).view({-1, 2});
}

// Padded frames of other exams change nothing.
TEST_P(EveryModel, GivesAnExamTheSameLogitsWhateverItIsBatchedWith) {
  const Dataset dataset = testing::noise_dataset({5, 12, 1, 7, 12}, kFeatureCount);
  const auto made = model();
  const torch::Tensor together = logits_of(*made, config(), dataset, {0, 1, 2, 3, 4});
  for (std::size_t exam = 0; exam < 5; ++exam) {
    const torch::Tensor alone = logits_of(*made, config(), dataset, {exam});
    const bool exact = config().has_kernels();  // others' products are LibTorch's
    EXPECT_TRUE(torch::allclose(alone[0], together[static_cast<int>(exam)], 0, exact ? 0 : 1e-6))
        << "exam " << exam << ": alone " << alone << ", together " << together;
  }
}

// Exact: with the same shapes, what the other exams hold changes not a bit.
TEST_P(EveryModel, DoesNotLetOtherExamsLeakIn) {
  Dataset dataset = testing::noise_dataset({5, 12, 1}, kFeatureCount);
  const auto made = model();
  const torch::Tensor before = logits_of(*made, config(), dataset, {0, 1, 2});
  dataset.features.narrow(0, 5, 12).fill_(1e4);  // all of exam 1
  const torch::Tensor after = logits_of(*made, config(), dataset, {0, 1, 2});
  EXPECT_TRUE(before[0].equal(after[0]));
  EXPECT_TRUE(before[2].equal(after[2]));
  EXPECT_EQ(before[1].equal(after[1]), !architecture().sees_frames);
}

TEST_P(EveryModel, SeesTheOrderOfFramesIfItSaysSo) {
  Dataset dataset = testing::noise_dataset({6, 6}, kFeatureCount);
  dataset.features.narrow(0, 6, 6).copy_(dataset.features.narrow(0, 0, 6).flip(0));
  const auto made = model();
  if (made->covariates.defined()) made->covariates[1].copy_(made->covariates[0]);
  const bool one_frame = is_one_frame(config().order);  // the middle one of six is not of six back
  const torch::Tensor logits = logits_of(*made, config(), dataset, {0, 1});
  const double change = (logits[0] - logits[1]).abs().max().item<double>();
  if (architecture().ordered || one_frame) {
    EXPECT_GT(change, 1e-4);
  } else {
    EXPECT_LT(change, 1e-6);
  }
}

TEST_P(EveryModel, IsReadFromItsFileAsItWas) {
  const coldframe::testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "m.safetensors";
  ModelMetadata card;
  card.config = config();
  card.targets = {{"label", Task::kBinary, {"no", "yes"}}};
  card.readouts.resize(1);
  card.recipe.features = {{"weights", "w"}};
  const auto made = model();
  Json encoding = Json::array();
  for (std::int64_t k = 0; k < config().covariates; ++k)
    encoding.push_back(
        {{"name", std::to_string(k)}, {"missing", false}, {"mean", 0.0}, {"deviation", 1.0}});
  if (config().covariates > 0) card.covariates = CovariateEncoding::from_json(encoding);
  write_model(path, state_dict(*made), card);
  const TrainedModel read = read_model(path);
  EXPECT_EQ(read.card.config, config());
  read.model->covariates = made->covariates;
  const Dataset dataset = testing::noise_dataset({5, 12, 1}, kFeatureCount);
  EXPECT_TRUE(logits_of(*read.model, config(), dataset, {0, 1, 2})
                  .equal(logits_of(*made, config(), dataset, {0, 1, 2})));
}

TEST_P(EveryModel, RefusesTheWeightsOfAnotherWidth) {
  ModelConfig wide = config();
  (architecture().sees_frames        ? wide.dimension
   : architecture().takes_covariates ? wide.covariates
                                     : wide.clock_width) += 4;
  const StateDict weights = state_dict(*make_model(wide, 3));
  EXPECT_THAT([&] { load_weights("m.safetensors", *model(), weights); },
              ::testing::ThrowsMessage<DataError>(::testing::AllOf(
                  ::testing::HasSubstr("m.safetensors"), ::testing::HasSubstr(", expected ["))));
}

TEST_P(EveryModel, SendsGradientsToEveryParameter) {
  if (!architecture().by_steps) return;  // it is fitted exactly
  const Dataset dataset = testing::noise_dataset({5, 12, 3, 7}, kFeatureCount);
  const auto made = model();
  const Targets labels = testing::classes_of({0, 1, 1, 0});
  const auto items = testing::all_frames(dataset, {0, 1, 2, 3});
  testing::batch_gradients(*made, dataset, items, Objective(labels, {0, 1}, {}), Dropout(), 0);
  for (const auto& item : made->named_parameters()) {
    if (item.key() == "attention.bias") continue;  // a softmax does not see a common offset
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().sum().item<double>(), 0) << item.key();
  }
}

TEST_P(EveryModel, HasAsManyParametersAsItsShapesSay) {
  double count = 0;
  for (const auto& parameter : model()->parameters()) count += double(parameter.numel());
  EXPECT_EQ(StepValues(config()).parameters(), count);
}

// Dropout belongs to an exam's frames, and not to its place in a batch.
TEST_P(EveryModel, HasTheSameGradientsInPieces) {
  if (!architecture().by_steps) return;
  const Dataset dataset = testing::noise_dataset({5, 12, 3, 7, 12, 1}, kFeatureCount);
  const Targets labels = testing::classes_of({0, 1, 1, 0, 0, 1});
  const auto items = testing::all_frames(dataset, {0, 1, 2, 3, 4, 5});
  const auto gradients = [&](std::size_t piece) {
    const auto made = model();
    testing::batch_gradients(*made, dataset, items, Objective(labels, {0, 1}, {}),
                             Dropout(0.3, 5, 2, 0.5), piece);
    std::vector<torch::Tensor> all;
    for (const auto& parameter : made->parameters()) all.push_back(parameter.grad().flatten());
    return torch::cat(all);
  };
  const torch::Tensor whole = gradients(0);
  for (const std::size_t piece : {1u, 2u, 4u})
    EXPECT_TRUE(torch::allclose(gradients(piece), whole, 1e-4, 1e-6)) << piece;
}

// A twin without features; covariates, times and lengths remain.
TEST_P(EveryModel, IsToldNothingByBlankedFeatures) {
  if (!architecture().sees_frames || !architecture().by_steps) return;
  Dataset dataset = testing::noise_dataset({6, 3}, kFeatureCount);
  ModelConfig blank = config();
  set_model(blank, "blank");
  EXPECT_EQ(model_name(blank), "blank");
  EXPECT_EQ(model_config_from_json(to_json(blank)), blank);
  const auto made = model_of(blank, 3);
  made->set_statistics(input_statistics(dataset, {0, 1}));
  const torch::Tensor before = logits_of(*made, blank, dataset, {0, 1});
  dataset.features.copy_(torch::randn_like(dataset.features) * 100);
  EXPECT_TRUE(logits_of(*made, blank, dataset, {0, 1}).equal(before));
}

TEST_P(EveryModel, GivesEachFrameAnOutputIfItSaysSo) {
  ModelConfig frames = config();
  frames.pool = TemporalPool::kNone;
  frames.order = FrameOrder::kInOrder;
  if (!architecture().per_frame) {
    EXPECT_THROW(model_config_from_json(to_json(frames)), DataError);
    return;
  }
  const Dataset dataset = testing::noise_dataset({6, 3}, kFeatureCount);
  EXPECT_EQ(model_config_from_json(to_json(frames)), frames);
  const auto made = model_of(frames, 3);
  made->set_statistics(input_statistics(dataset, {0, 1}));
  EXPECT_EQ(logits_of(*made, frames, dataset, {0, 1}).size(0), 9);
}

TEST(Model, TwinsKeepWhatTheyAreTwinsOf) {
  for (const char* name : {"lstm", "transformer", "tcn"}) {
    ModelConfig config;
    set_model(config, name);
    EXPECT_EQ(model_name(config), name);
    set_model(config, "shuffled");
    EXPECT_EQ(config.architecture, find_model(name)->architecture);
    EXPECT_EQ(model_name(config), "shuffled");
  }
  ModelConfig mean;
  set_model(mean, "mean");
  set_model(mean, "shuffled");  // the mean has no order to lose
  EXPECT_EQ(mean.architecture, &kGru);
}

// Scaled times are the same places; frames between which more time passes are farther apart.
TEST(Model, TransformerSeesIntervalsInUnitsOfTheTrainingPart) {
  Dataset dataset = testing::noise_dataset({6, 6}, 8);
  ModelConfig config = testing::small_config(dataset, "transformer");
  config.time = true;
  const auto outputs = [&](double scale, double last) {
    Dataset made = dataset;
    for (Sequence& sequence : made.sequences) {
      sequence.time_s = {0, 1, 2.5, 3, 5, last};
      for (double& time : sequence.time_s) time *= scale;
    }
    const auto model = make_model(config, 3);
    const torch::NoGradGuard no_grad;
    model->set_statistics(input_statistics(made, {0, 1}));
    model->named_parameters()["time.weight"].zero_();  // places alone tell
    return logits_of(*model, config, made, {0, 1});
  };
  EXPECT_TRUE(torch::allclose(outputs(1, 9), outputs(60, 9), 0, 1e-5));
  EXPECT_FALSE(torch::allclose(outputs(1, 9), outputs(1, 7), 0, 1e-5));
}

TEST(Model, TcnSeesNoFrameToCome) {
  Dataset dataset = testing::noise_dataset({12, 12}, 8);
  ModelConfig config = testing::small_config(dataset, "tcn");
  config.pool = TemporalPool::kNone;
  config.layers = 3;
  const auto model = make_model(config, 3);
  const torch::Tensor before = logits_of(*model, config, dataset, {0});
  dataset.features[7] += 1;
  const torch::Tensor changed =
      (logits_of(*model, config, dataset, {0}) - before).abs().amax(1) > 0;
  EXPECT_FALSE(changed.narrow(0, 0, 7).any().item<bool>());
  EXPECT_TRUE(changed.narrow(0, 7, 5).all().item<bool>());
}

TEST(Model, WidthsAndDepthsThatNoModelHasAreNotRead) {
  const auto changed = [](const char* name, const char* key, int value) {
    Json json = to_json(testing::small_config(testing::noise_dataset({3}, 8), name));
    json[key] = value;
    return json;
  };
  EXPECT_THROW(model_config_from_json(changed("transformer", "hidden", 33)), DataError);
  EXPECT_THROW(model_config_from_json(changed("tcn", "layers", 17)), DataError);
  EXPECT_NO_THROW(model_config_from_json(changed("tcn", "layers", 16)));
}

TEST(Model, HeadsDivideTheWidthIntoPairs) {
  for (const auto& [width, heads] : {std::pair(64, 4), std::pair(128, 8), std::pair(16, 1),
                                     std::pair(2, 1), std::pair(50, 1), std::pair(36, 2)}) {
    EXPECT_EQ(attention_heads(width), heads) << width;
  }
}

TEST(Model, SinglePerFrameSeesNoOtherFrame) {
  Dataset dataset = testing::noise_dataset({6, 3}, 8);
  ModelConfig config = testing::small_config(dataset);
  config.pool = TemporalPool::kNone;
  set_model(config, "single");
  EXPECT_EQ(model_name(config), "single");
  EXPECT_EQ(model_config_from_json(to_json(config)), config);
  const auto single = make_model(config, 3);
  const torch::Tensor before = logits_of(*single, config, dataset, {0, 1});
  ASSERT_EQ(before.size(0), 9);
  dataset.features[4] += 1;
  const torch::Tensor changed =
      (logits_of(*single, config, dataset, {0, 1}) - before).abs().amax(1) > 1e-3;
  EXPECT_EQ(changed.sum().item<std::int64_t>(), 1);
}

TEST(Model, WithoutAnOutputPerFrameIsNotReadAsOne) {
  for (const auto& [name, order] :
       {std::pair("attention", FrameOrder::kInOrder), std::pair("mean", FrameOrder::kMiddle)}) {
    ModelConfig config = testing::small_config(testing::noise_dataset({3}, 8));
    config.pool = TemporalPool::kNone;
    config.architecture = find_model(name)->architecture;
    config.order = order;
    EXPECT_THROW(model_config_from_json(to_json(config)), DataError);
  }
}

TEST(Model, MasksOfStreamsGetNoNoiseAndEveryDescriptorOfTheClockDoes) {
  ModelConfig config = testing::small_config(testing::noise_dataset({6, 3}, 8));
  config.streams = {"FA", "ICGA"};
  EXPECT_EQ(config.clean_inputs(), 2);
  set_model(config, "clock");
  EXPECT_EQ(config.clean_inputs(), 0);
}

TEST(Model, ClockPerFrameKnowsItsPlaceAndNoFeatures) {
  Dataset dataset = testing::noise_dataset({6, 3}, 8);
  ModelConfig config = testing::small_config(dataset);
  config.pool = TemporalPool::kNone;
  set_model(config, "clock");
  const auto clock = make_model(config, 3);
  const torch::Tensor before = logits_of(*clock, config, dataset, {0, 1});
  ASSERT_EQ(before.size(0), 9);
  EXPECT_GT((before[0] - before[2]).abs().max().item<double>(), 1e-4) << "two frames of an exam";
  dataset.features.fill_(5);
  EXPECT_TRUE(before.equal(logits_of(*clock, config, dataset, {0, 1})));
}

TEST(Statistics, ComeFromTheTrainingExamsAlone) {
  Dataset dataset = testing::noise_dataset({4, 5, 6}, 3);
  const InputStatistics before = input_statistics(dataset, {0, 2});
  dataset.features.narrow(0, 4, 5).fill_(1e3);  // all of exam 1
  dataset.sequences[1].time_s.back() = 1e6;
  dataset.sequences[1].clock[0] = 1e6;
  const InputStatistics after = input_statistics(dataset, {0, 2});
  EXPECT_TRUE(before.feature_mean.equal(after.feature_mean));
  EXPECT_TRUE(before.feature_std.equal(after.feature_std));
  EXPECT_TRUE(before.time_mean.equal(after.time_mean));
  EXPECT_TRUE(before.clock_std.equal(after.clock_std));
}

TEST(Statistics, AreMeanAndPopulationDeviationWithAFloor) {
  Dataset dataset = testing::noise_dataset({2, 2}, 2);
  dataset.features = torch::tensor({{0.f, 5.f}, {2.f, 5.f}, {4.f, 5.f}, {6.f, 5.f}});
  const InputStatistics statistics = input_statistics(dataset, {0, 1});
  EXPECT_TRUE(torch::allclose(statistics.feature_mean, torch::tensor({3.f, 5.f})));
  // Feature 1 is constant: a hundredth of the mean deviation, (√5 + 0) / 2.
  EXPECT_TRUE(torch::allclose(statistics.feature_std,
                              torch::tensor({std::sqrt(5.f), 0.01f * std::sqrt(5.f) / 2})));
}

TEST(Dropout, DependsOnTheExamAndNotOnItsPlaceInTheBatch) {
  const Dropout dropout(0.4, 5, 2);
  const torch::Tensor x = torch::ones({3, 4000});
  const std::vector<std::uint64_t> keys = {10, 20, 30}, reversed = {30, 20, 10};
  const torch::Tensor a = dropout(x, RandomPurpose::kHeadDropout, keys);
  const torch::Tensor b = dropout(x, RandomPurpose::kHeadDropout, reversed);
  EXPECT_TRUE(a.equal(b.flip(0)));
  EXPECT_NEAR(a.mean().item<double>(), 1.0, 0.03);
  const torch::Tensor dropped = (a == 0).to(torch::kFloat32);
  EXPECT_NEAR(dropped.mean().item<double>(), 0.4, 0.03);
  for (const int beside : {1, 2, 3, 4}) {  // neighbours share the bits of one draw
    const auto both = dropped.slice(1, beside) * dropped.slice(1, 0, -beside);
    EXPECT_NEAR(both.mean().item<double>(), 0.16, 0.02) << beside;
  }
  EXPECT_FALSE(a.equal(dropout(x, RandomPurpose::kProjectionDropout, keys)));
  EXPECT_FALSE(a.equal(Dropout(0.4, 5, 3)(x, RandomPurpose::kHeadDropout, keys)));
  EXPECT_TRUE(Dropout()(x, RandomPurpose::kHeadDropout, keys).equal(x));
}

TEST(Dropout, AddsNoiseThatDependsOnTheKeyAlone) {
  const std::vector<std::uint64_t> keys = {11, 12}, reversed = {12, 11};
  const auto noise = [](const Dropout& dropout, const std::vector<std::uint64_t>& of) {
    torch::Tensor x = torch::zeros({2, 4000});
    dropout.add_noise(of, x);
    return x;
  };
  const Dropout noisy(0, 5, 2, 0.5);
  const torch::Tensor a = noise(noisy, keys);
  EXPECT_TRUE(a.equal(noise(noisy, reversed).flip(0)));
  EXPECT_FALSE(a.equal(noise(Dropout(0, 5, 3, 0.5), keys)));
  EXPECT_NEAR(a.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(a.std().item<double>(), 0.5, 0.02);
  EXPECT_TRUE(noise(Dropout(0.4, 5, 2), keys).equal(torch::zeros({2, 4000})));
}

}  // namespace
}  // namespace coldframe::temporal
