#include "train_temporal/models/model_file.h"

#include <gmock/gmock.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/run/ensemble.h"

namespace coldframe::temporal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const Dataset dataset = testing::noise_dataset({3}, 5);
    card_.config = testing::small_config(dataset);
    card_.targets = {{"label", Task::kBinary, {"no", "yes"}}};
    card_.readouts.resize(1);
    card_.recipe.features = {{"weights", "w"}};
    weights_ = state_dict(*make_model(card_.config, 1));
  }

  std::string error_of_reading() const {
    write_model(folder_.path() / "m.safetensors", weights_, card_);
    try {
      read_model(folder_.path() / "m.safetensors");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  coldframe::testing::TemporaryFolder folder_;
  ModelMetadata card_;
  StateDict weights_;
};

TEST_F(ModelFile, ReadsBackWhatWasWritten) {
  card_.readouts[0].temperature = 1.25;
  card_.fit_seed = 0xfedcba9876543210;
  EXPECT_EQ(error_of_reading(), "");
  const TrainedModel read = read_model(folder_.path() / "m.safetensors");
  EXPECT_EQ(read.card.config, card_.config);
  EXPECT_EQ(read.card.readouts[0].temperature, 1.25);
  EXPECT_EQ(read.card.fit_seed, card_.fit_seed);
  EXPECT_EQ(read.card.recipe.feature_digest(), card_.recipe.feature_digest());
  for (const auto& [name, tensor] : state_dict(*read.model)) {
    EXPECT_TRUE(tensor.equal(weights_.at(name))) << name;
  }
}

TEST_F(ModelFile, RefusesNumbersThatWouldPredictNothing) {
  const ModelMetadata good = card_;
  for (double temperature : {0.0, -1.0}) {
    card_.readouts[0].temperature = temperature;
    EXPECT_THAT(error_of_reading(), HasSubstr("temperature")) << temperature;
  }
  card_ = good;
  card_.readouts[0].threshold = NAN;
  EXPECT_THAT(error_of_reading(), HasSubstr("m.safetensors"));
  card_ = good;
  weights_["head.bias"][1] = NAN;
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("head.bias"), HasSubstr("m.safetensors")));
}

TEST_F(ModelFile, NamesTheFileWhoseConfigurationIsWrong) {
  card_.config.architecture = &kClock;
  card_.config.order = FrameOrder::kMiddle;
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("order of frames"), HasSubstr("m.safetensors")));
}

// 65536 classes would need a head of the same number of rows.
TEST_F(ModelFile, ComparesTheHeadBeforeItBuildsTheModel) {
  card_.config.outputs = 65536;
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
  const Ensemble ensemble({folder_.path() / "m.safetensors"});
  ensemble.require_width(5);
  EXPECT_THROW(ensemble.require_width(12), DataError);
  card_.arrangement.stream_column = "stream";
  EXPECT_THAT(error_of_reading(), HasSubstr("do not agree on streams"));
  card_.config.dimension = 6;
  card_.config.streams = {"FA", "ICGA"};
  weights_ = state_dict(*make_model(card_.config, 1));
  EXPECT_EQ(error_of_reading(), "");
  card_.arrangement.stream_column.clear();
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
  other["deviation"] = 1e-300;
  refused(Json::array({other}));
}

// 65536 hidden units would need 48 GiB; the file's own shapes are compared first.
TEST_F(ModelFile, DoesNotAllocateWhatItsConfigurationClaims) {
  card_.config.hidden = 65536;
  EXPECT_THAT(error_of_reading(), HasSubstr("project.weight"));
}

}  // namespace
}  // namespace coldframe::temporal
