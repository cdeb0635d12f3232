#include "train_temporal/models/operations.h"

#include <gmock/gmock.h>

#include "tests/train_temporal/made_data.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {
namespace {

std::vector<std::string> parameters_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const TensorRow& row : tensors_of(config))
    if (!row.is_buffer) names.push_back(row.name);
  return names;
}

// Checkpoints hold parameters as one vector, and seeds draw them, in this order.
TEST(TensorList, KeepsTheOrderInWhichPyTorchRegisters) {
  ModelConfig config = testing::small_config(testing::noise_dataset({3}, 8), "transformer");
  config.layers = 1;
  config.time = true;
  config.pool = TemporalPool::kAttention;
  const std::string layer = "transformer.layers.0.";
  EXPECT_THAT(parameters_of(config),
              ::testing::ElementsAre(
                  "project.weight", "project.bias", "time.weight", "time.bias",
                  layer + "self_attn.in_proj_weight", layer + "self_attn.in_proj_bias",
                  layer + "self_attn.out_proj.weight", layer + "self_attn.out_proj.bias",
                  layer + "linear1.weight", layer + "linear1.bias", layer + "linear2.weight",
                  layer + "linear2.bias", layer + "norm1.weight", layer + "norm1.bias",
                  layer + "norm2.weight", layer + "norm2.bias", "transformer.norm.weight",
                  "transformer.norm.bias", "attention.weight", "attention.bias", "head.weight",
                  "head.bias"));
  set_model(config, "gru");
  config.time_encoding = TimeEncoding::kDecay;
  config.pool = TemporalPool::kMean;
  EXPECT_THAT(
      parameters_of(config),
      ::testing::ElementsAre("project.weight", "project.bias", "decay_l0.weight", "decay_l0.bias",
                             "gru.weight_ih_l0", "gru.weight_hh_l0", "gru.bias_ih_l0",
                             "gru.bias_hh_l0", "head.weight", "head.bias"));
}

TEST(TensorList, IsWhatEveryNetworkRegisters) {
  const auto networks = model_names([](auto& model) { return model.architecture->is_network(); });
  EXPECT_GE(networks.size(), 12u);
  for (const std::string& name : networks) {
    ModelConfig config = testing::small_config(testing::noise_dataset({3}, 8), name);
    config.covariates = 2;
    std::vector<std::string> registered;
    const auto model = config.architecture->make(config);
    for (const auto& item : model->named_parameters()) registered.push_back(item.key());
    EXPECT_EQ(parameters_of(config), registered) << name;
  }
}

}  // namespace
}  // namespace coldframe::temporal
