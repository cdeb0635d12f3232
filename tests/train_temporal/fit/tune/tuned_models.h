// Small ViTs of random weights, the recipes that caches of them would have, and cut rows; and the
// same models as one graph, which is what PyTorch would build.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/cli/log.h"
#include "common/torch/memory.h"
#include "extract/vit/weights.h"
#include "tests/extract/vit/engine_models.h"
#include "train_temporal/fit/tune/tuned_vit.h"

namespace coldframe::tune::testing {

inline constexpr std::int64_t kFrames = 5;

// On one thread, which is quicker for models as small as these, and without log lines.
class QuietTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    set_quiet(true);
    count_cpu_memory();
  }
  void TearDown() override { set_quiet(false); }
};

inline Json recipe_of(const vit::Architecture& architecture, const ImageSize& size,
                      const vit::FeatureOptions& features) {
  Json recipe;
  recipe["backbone"] = {{"kind", "random"},
                        {"generator", vit::kRandomWeightsVersion},
                        {"seed", 3},
                        {"architecture", vit::to_json(architecture)},
                        {"pooling", vit::to_string(features.pooling)}};
  if (!features.layers.empty()) recipe["backbone"]["layers"] = features.layers;
  recipe["preprocessing"] = {{"image_size", {size.height, size.width}},
                             {"resampler", "pillow"},
                             {"mean", {0.485, 0.456, 0.406}},
                             {"std", {0.229, 0.224, 0.225}}};
  return recipe;
}

// A model of the source's weights that shares nothing with it.
inline vit::VisionTransformer whole_model(const TunedSource& source) {
  StateDict copies;
  for (const auto& [name, tensor] : source.tensors()) copies[name] = tensor.clone();
  vit::StateDictSource weights(std::move(copies));
  return vit::VisionTransformer(vit::Scope(weights), source.architecture(), source.image_size());
}

inline torch::Tensor images_of(const TunedSource& source, const torch::Tensor& pixels) {
  std::vector<torch::Tensor> channels;
  for (std::int64_t c = 0; c < 3; ++c)
    channels.push_back(source.levels()[c].index({pixels.select(3, c).to(torch::kInt64)}));
  return torch::stack(channels, 1);
}

// uint8 [n, H, W, 3], or float16 tokens.
inline torch::Tensor rows_of(const TunedSource& source, std::int64_t frames = kFrames) {
  const torch::NoGradGuard no_grad;
  const ImageSize size = source.image_size();
  torch::Tensor pixels = torch::arange(frames * size.pixels() * 3, torch::kInt64)
                             .mul(7919)
                             .remainder(65521)
                             .remainder(256)
                             .to(torch::kUInt8)
                             .view({frames, size.height, size.width, 3});
  if (source.cut() == 0) return pixels;
  vit::VisionTransformer model = whole_model(source);
  vit::TorchOperations ops;
  torch::Tensor x = model->embed(ops, images_of(source, pixels));
  for (std::int64_t i = 0; i < source.cut(); ++i)
    x = model->block(i).forward(ops, x, model->rotation(i, x.device()));
  return x.to(torch::kHalf);
}

inline std::vector<std::uint64_t> keys_of(std::int64_t frames) {
  std::vector<std::uint64_t> keys;
  for (std::int64_t i = 0; i < frames; ++i)
    keys.push_back(mix_bits(static_cast<std::uint64_t>(i) + 1));
  return keys;
}

// The gradient of some loss by the features.
inline torch::Tensor loss_gradient(const torch::Tensor& features) {
  return (torch::sin(features * 3) + 0.1 * features).div(static_cast<double>(features.size(0)));
}

struct Step {
  torch::Tensor features;
  std::map<std::string, torch::Tensor> gradients;
};

inline Step step_of(TunedVit& vit, const torch::Tensor& rows,
                    const temporal::Dropout& dropout = {}) {
  Step step;
  vit.step(rows, keys_of(rows.size(0)), dropout, [&](const torch::Tensor& features) {
    step.features = features.clone();
    return loss_gradient(features);
  });
  for (auto& parameter : vit.trainable().named_parameters()) {
    step.gradients[parameter.key()] = parameter.value().grad().clone();
    parameter.value().mutable_grad().reset();
  }
  return step;
}

// The same with one graph of everything, of a model whose parameters of these names are trained.
inline Step whole_step(const TunedSource& source, const std::vector<std::string>& names,
                       const torch::Tensor& rows, const temporal::Dropout& dropout = {},
                       double drop_path = 0) {
  vit::VisionTransformer model = whole_model(source);
  auto parameters = model->named_parameters();
  for (const std::string& name : names) parameters[name].set_requires_grad(true);
  const auto keys = keys_of(rows.size(0));
  vit::TorchOperations ops;
  torch::Tensor x =
      source.cut() == 0 ? model->embed(ops, images_of(source, rows)) : rows.to(torch::kFloat32);
  const auto layers = vit::layers_of(source.features(), source.architecture());
  std::vector<torch::Tensor> features;
  for (std::int64_t i = source.cut(); i <= layers.back(); ++i) {
    if (features.size() < layers.size() && layers[features.size()] == i)
      features.push_back(model->pooled(ops, x, source.features().pooling));
    if (i == layers.back()) break;
    for (std::size_t part = 0; part < model->block(i).parts(); ++part) {
      const auto dropped = [&](const torch::Tensor& y) {
        using temporal::RandomPurpose;
        const auto mask =
            dropout.mask(in_block(RandomPurpose::kTokenDropout, i, part), keys, y[0].numel());
        const double share = drop_path * double(i) / double(source.architecture().depth - 1);
        const auto path =
            dropout.of(share).mask(in_block(RandomPurpose::kDropPath, i, part), keys, 1);
        return y * mask.view_as(y) * path.unsqueeze(2);
      };
      if (dropout.active() || drop_path > 0) ops.dropout = dropped;
      x = model->block(i).forward_part(ops, part, x, model->rotation(i, x.device()));
    }
  }
  Step step;
  const torch::Tensor all = torch::cat(features, 1);
  step.features = all.detach();
  all.backward(loss_gradient(step.features));
  for (const std::string& name : names) step.gradients[name] = parameters[name].grad();
  return step;
}

inline double most(const torch::Tensor& x) {
  return x.abs().max().item<double>();
}

// tolerance 0: the same bits
inline void expect_same(const Step& found, const Step& expected, double tolerance) {
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  EXPECT_LE(most(found.features - expected.features), tolerance * most(expected.features));
  double largest = 0;
  for (const auto& [name, gradient] : expected.gradients)
    largest = std::max(largest, most(gradient));
  for (const auto& [name, gradient] : expected.gradients) {
    ASSERT_TRUE(found.gradients.contains(name)) << name;
    // Some gradients are 0 but for rounding: no softmax depends on what is added to all keys.
    const double scale = std::max(most(gradient), largest * 1e-2);
    EXPECT_LE(most(found.gradients.at(name) - gradient), tolerance * scale) << name;
    EXPECT_GT(most(gradient), 0) << name;
  }
}

inline std::vector<std::string> names_of(const torch::nn::Module& module) {
  return module.named_parameters().keys();
}

}  // namespace coldframe::tune::testing
