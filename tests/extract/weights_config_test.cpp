// What the config beside weights decides, and what options go before it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/options.h"

namespace coldframe::extract {
namespace {

// A folder as timm writes it to the hub, whose weights are read later.
class WeightsWithConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ("coldframe-hub-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    write("model.safetensors", "");
    write("config.json",
          R"({"architecture": "vit_base_patch16_siglip_224", "global_pool": "map",
              "pretrained_cfg": {"input_size": [3, 256, 256], "crop_pct": 0.9, "mean": [0.5],
                                 "std": [0.1, 0.2, 0.3], "crop_mode": "squash",
                                 "interpolation": "bilinear"}})");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  ExtractOptions parse(const std::string& more) {
    return *parse_extract_options(
        split("--input a --out b --weights " + folder_.string() + "/" + more, ' '));
  }

  std::filesystem::path folder_;
};

TEST_F(WeightsWithConfig, NeedNoOptionBesides) {
  const ExtractOptions options = parse("");
  const preprocess::Preprocessing& p = options.preprocessing;
  EXPECT_EQ(p.image_size, 256);
  EXPECT_EQ(options.backbone.image_size, 256);
  EXPECT_EQ(p.crop_pct, 0.9);
  EXPECT_EQ(p.resize, preprocess::Resize::kSquash);
  EXPECT_EQ(p.interpolation, preprocess::Interpolation::kBilinear);
  EXPECT_EQ(p.mean, (std::array{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(p.std, (std::array{0.1f, 0.2f, 0.3f}));
  EXPECT_EQ(options.backbone.features.pooling, vit::Pooling::kMap);
  EXPECT_EQ(options.backbone.weights, folder_);
  EXPECT_EQ(options.config, folder_ / "config.json");
}

TEST_F(WeightsWithConfig, GiveWayToOptions) {
  const ExtractOptions options =
      parse(" --pool mean --image-size 224 --mean 0.4 --resize shortest --activation gelu_tanh");
  EXPECT_EQ(options.preprocessing.image_size, 224);
  EXPECT_EQ(options.preprocessing.resize, preprocess::Resize::kShortest);
  EXPECT_EQ(options.preprocessing.mean, (std::array{0.4f, 0.4f, 0.4f}));
  EXPECT_EQ(options.preprocessing.std, (std::array{0.1f, 0.2f, 0.3f}));
  EXPECT_EQ(options.backbone.features.pooling, vit::Pooling::kMean);
  EXPECT_EQ(options.backbone.activation, vit::Activation::kGeluTanh);
}

TEST_F(WeightsWithConfig, TakeTransformersProcessorToo) {
  write("config.json", R"({"model_type": "dinov2", "image_size": 518, "patch_size": 14})");
  write("preprocessor_config.json",
        R"({"do_center_crop": true, "crop_size": {"height": 224, "width": 224},
            "size": {"shortest_edge": 256}, "resample": 3, "image_mean": [0.1, 0.2, 0.3],
            "image_std": [0.2, 0.2, 0.2], "image_processor_type": "BitImageProcessor"})");
  const ExtractOptions options = parse("");
  const preprocess::Preprocessing& p = options.preprocessing;
  EXPECT_EQ(p.image_size, 224);
  EXPECT_EQ(std::floor(static_cast<double>(p.image_size.height) / p.crop_pct), 256);
  EXPECT_EQ(p.resize, preprocess::Resize::kShortest);
  EXPECT_EQ(p.interpolation, preprocess::Interpolation::kBicubic);
  EXPECT_EQ(p.resampler, preprocess::Resampler::kTransformers);
  EXPECT_EQ(p.mean, (std::array{0.1f, 0.2f, 0.3f}));
  EXPECT_EQ(options.backbone.features.pooling, vit::Pooling::kCls);
}

TEST_F(WeightsWithConfig, AreProjectedUnlessTokensAreNamed) {
  write("config.json", R"({"model_type": "clip", "architectures": ["CLIPModel"],
                           "vision_config": {"image_size": 224, "patch_size": 32}})");
  write("preprocessor_config.json", R"({"image_processor_type": "CLIPImageProcessor"})");
  EXPECT_TRUE(parse("").backbone.features.projection);
  EXPECT_FALSE(parse(" --pool cls").backbone.features.projection);
  EXPECT_FALSE(parse(" --layers 11,12").backbone.features.projection);
  EXPECT_TRUE(parse(" --pool mean --projection").backbone.features.projection);
}

TEST_F(WeightsWithConfig, AreLeftAsideWhereANameIsGiven) {
  write("config.json", R"({"architecture": "resnet50"})");
  EXPECT_THROW(parse(""), ConfigError);
  EXPECT_EQ(parse(" --architecture vit_tiny_patch16_224 --mean 0 --std 1 --pool cls")
                .backbone.architecture,
            "vit_tiny_patch16_224");
}

}  // namespace
}  // namespace coldframe::extract
