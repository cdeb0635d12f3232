// What the weights of a model are before it is trained.
#include <gtest/gtest.h>

#include <cmath>

#include "common/files/fingerprint.h"
#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/operations.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {
namespace {

ModelConfig config_of(const std::string& model) {
  ModelConfig config = testing::small_config(testing::noise_dataset({3}, 8), model);
  config.covariates = 2;
  return config;
}

std::string digest_of(const ModelConfig& config) {
  Xxh3Stream digest;
  for (const auto& item : make_model(config, 7)->named_parameters()) {
    const torch::Tensor values = item.value().detach().contiguous();
    digest.update(std::as_bytes(std::span(item.key())));
    digest.update(std::as_bytes(
        std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()))));
  }
  return digest.hex();
}

struct Known {
  const char* model;
  const char* digest;
};

// Those of runs that were begun before.
TEST(InitialWeights, AreThoseOfASeedForEver) {
  constexpr Known kKnown[] = {
      {"gru", "dbefb482bcee8d05395cc7ecb5e0db7e"},
      {"bigru", "e31aa6779ccdf742286ab99ab9cf45f1"},
      {"lstm", "f81fe15f2f7cbf5a1830479dc0c16c2d"},
      {"transformer", "1199f39e1ef4ec7e1543bf97d82632b5"},
      {"tcn", "56b1e7ab31d9e0b55ee93e4258662661"},
      {"mean", "91e2c8b2317119adee33a013b9d49c27"},
      {"attention", "6b1c854d2a11f04e202917fe2a796c37"},
      {"single", "91e2c8b2317119adee33a013b9d49c27"},
      {"summary", "b0e5c7c44f6cfea7940d2b869486223d"},
      {"clock", "8f95c1b93bc58a7fa3ed3086f6108736"},
      {"covariates", "904739a07f77f6eebfb10b67f61c0a51"},
  };
  for (const Known& known : kKnown) EXPECT_EQ(digest_of(config_of(known.model)), known.digest);

  ModelConfig config = config_of("gru");
  config.time = config.elapsed = true;
  config.time_encoding = TimeEncoding::kDecay;
  config.layers = 2;
  config.bidirectional = true;
  EXPECT_EQ(digest_of(config), "2f72815bddc0b92d6d8694258ae9735c");
  config = config_of("transformer");
  config.time = true;
  config.time_encoding = TimeEncoding::kTime2Vec;
  config.pool = TemporalPool::kNone;
  EXPECT_EQ(digest_of(config), "c0106d250ce498dfa91408d42fd7bc03");
  config = config_of("tcn");
  config.dimension = 10;  // two streams of four features, and whether each is there
  config.streams = {"a", "b"};
  config.gated = true;
  EXPECT_EQ(digest_of(config), "044b8327c4e644dd9a880e57604c4888");
}

// A recurrent layer of another name, and a linear one whose name has "norm" in it.
Value odd_layers(Operations& ops, const ModelConfig& config, Value x) {
  return ops.norm(ops.recur(ops.linear(x, "abnormal", config.hidden), 0), "scale");
}

TEST(InitialWeights, AreSaidByTheDescriptionWhateverTheirNames) {
  static const Architecture odd{.name = "odd",
                                .make = make<Network>,
                                .layers_over_frames = odd_layers,
                                .ordered = true,
                                .recurrent = true,
                                .gates = 3};
  ModelConfig config = config_of("gru");
  config.architecture = &odd;
  config.dimension = config.hidden = 64;
  const auto model = make_model(config, 7);
  const auto parameters = model->named_parameters();
  const auto largest = [&](const char* name) {
    return parameters[name].abs().max().item<double>();
  };
  const double bound = 1 / std::sqrt(64.0);
  for (const char* name :
       {"abnormal.weight", "abnormal.bias", "odd.weight_ih_l0", "odd.bias_hh_l0"}) {
    EXPECT_GT(largest(name), 0.8 * bound) << name;
    EXPECT_LE(largest(name), bound) << name;
  }
  EXPECT_TRUE(parameters["scale.weight"].eq(1).all().item<bool>());
  EXPECT_TRUE(parameters["scale.bias"].eq(0).all().item<bool>());
}

}  // namespace
}  // namespace coldframe::temporal
