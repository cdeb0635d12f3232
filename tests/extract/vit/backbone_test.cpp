// Tests of what make_backbone refuses and random weights promise.
#include "extract/vit/backbone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/fingerprint.h"
#include "common/torch/safetensors.h"
#include "extract/vit/cpu/choose.h"
#include "extract/vit/resolve_architecture.h"
#include "extract/vit/vit.h"
#include "extract/vit/weights.h"
#include "tests/extract/vit/engine_models.h"
#include "tests/support/gpu_test.h"

namespace coldframe::vit {
namespace {

using ::testing::HasSubstr;

// A whole ViT of one block, small enough to write to disk for every case.
Architecture small() {
  Architecture architecture;
  architecture.patch = 4;
  architecture.width = 64;
  architecture.depth = 1;
  architecture.heads = 1;
  architecture.mlp_hidden = 128;
  architecture.position_grid = 3;
  return architecture;
}

StateDict weights_of(const Architecture& architecture) {
  RandomSource source(1);
  VisionTransformer model(Scope(source), architecture,
                          architecture.patch * architecture.position_grid);
  StateDict weights;
  for (const auto& parameter : model->named_parameters())
    weights[parameter.key()] = parameter.value().clone();
  return weights;
}

class BackboneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_quiet(true);
    path_ = std::filesystem::path(::testing::TempDir()) /
            ("coldframe-backbone-" + std::to_string(getpid()) + ".safetensors");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::unique_ptr<Backbone> make(const StateDict& weights, BackboneOptions options) {
    options.heads = options.heads.value_or(1);  // no published ViT is as wide as small()
    return make_as_stated(weights, options);
  }
  std::unique_ptr<Backbone> make_as_stated(const StateDict& weights, BackboneOptions options) {
    write_safetensors(path_, weights, {});
    options.weights = path_;
    return make_backbone(options, torch::kCPU, Precision::kFp32);
  }
  // The error's text, "" if there is none.
  std::string refusal(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

struct Change {
  const char* name;
  std::function<void(StateDict&)> apply;
  const char* message;
};

void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

class WrongWeights : public BackboneTest, public ::testing::WithParamInterface<Change> {};

TEST_P(WrongWeights, AreRefusedByTheTensorsName) {
  StateDict weights = weights_of(small());
  GetParam().apply(weights);
  EXPECT_THAT(refusal([&] { make(weights, {.image_size = 12}); }), HasSubstr(GetParam().message));
}

Change without(const char* name, const char* tensor, const char* message) {
  return {name, [tensor](StateDict& weights) { weights.erase(tensor); }, message};
}

Change with(const char* name, const char* tensor, std::vector<std::int64_t> shape,
            const char* message) {
  return {name, [=](StateDict& weights) { weights[tensor] = torch::ones(shape); }, message};
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongWeights,
    ::testing::Values(
        without("no_patches", "patch_embed.proj.weight", "'patch_embed.proj.weight' is missing"),
        without("no_bias", "blocks.0.mlp.fc1.bias", "'blocks.0.mlp.fc1.bias' [128] is missing"),
        without("no_norm", "norm.weight", "no published ViT has the parts of these weights"),
        without("no_positions", "pos_embed", "absolute positions 0 instead of 1"),
        with("extra", "blocks.0.extra", {3}, "'blocks.0.extra' [3] has no place"),
        with("gap", "blocks.7.norm1.weight", {64}, "'blocks.1.norm1.weight' [64] is missing"),
        with("shape", "norm.bias", {65}, "'norm.bias' has shape [65], expected [64]"),
        with("rank", "cls_token", {2, 2, 2, 2},
             "tensor 'cls_token' has shape [2, 2, 2, 2], expected 3"),
        with("channels", "patch_embed.proj.weight", {64, 2, 4, 4}, "expected [width, 3, patch"),
        with("positions", "pos_embed", {1, 12, 64}, "12 rows, which is no square"),
        with("distilled", "dist_token", {1, 1, 64}, "10 rows, which is no square"),
        with("swiglu", "blocks.0.mlp.w12.weight", {1, 1}, "two tensors stand for"),
        with("packed_swiglu", "blocks.0.mlp.fc2.weight", {64, 64}, "gated MLP 1 instead of 0"),
        with("qk_norm", "blocks.0.attn.q_norm.weight", {64}, "normalised queries and keys 1"),
        with("clip", "norm_pre.weight", {64}, "no published ViT has the parts"),
        with("swin", "layers.0.blocks.0.a", {64}, "windows (a Swin transformer)"),
        with("resnet", "layer1.0.conv1.weight", {64, 64, 1, 1}, "convolutions (a ResNet)"),
        with("half_a_pair", "blocks.0.attn.q_bias", {64}, "a part of 'blocks.0.attn.qkv.bias'"),
        with("two_encoders", "b.patch_embed.proj.weight", {64, 3, 4, 4}, "several image encoders"),
        Change{"integers",
               [](StateDict& weights) { weights["norm.bias"] = torch::ones({64}, torch::kInt64); },
               "'norm.bias' has type"},
        Change{"no_number", [](StateDict& weights) { weights["norm.bias"][3] = NAN; },
               "'norm.bias' has values that are infinite or no number"}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(BackboneTest, IgnoresClassifierMaskTokenAndDecoder) {
  StateDict weights = weights_of(small());
  weights["head.weight"] = torch::ones({2, 64});
  weights["mask_token"] = torch::ones({1, 1, 64});
  weights["decoder_blocks.0.norm1.weight"] = torch::ones({8});
  EXPECT_EQ(make(weights, {.image_size = 12})->dimension(), 64);
  EXPECT_EQ(
      make(weights, {.features = {.pooling = Pooling::kClsMean}, .image_size = 12})->dimension(),
      128);
}

TEST_F(BackboneTest, ComparesWeightsWithTheNamedArchitecture) {
  const std::string message = refusal([&] {
    make(weights_of(small()), {.architecture = "vit_small_patch16_224", .image_size = 12});
  });
  EXPECT_THAT(message, HasSubstr("wrong weights for vit_small_patch16_224"));
  EXPECT_THAT(message, HasSubstr("patch size 4 instead of 16, width 64 instead of 384"));
}

TEST_F(BackboneTest, ChecksOptionsAgainstTheWeights) {
  Architecture without_class_token = small();
  without_class_token.class_token = false;
  Architecture narrow = small();
  narrow.width = 48;
  narrow.heads = 3;
  EXPECT_THAT(refusal([&] { make(weights_of(small()), {.image_size = 13}); }),
              HasSubstr("nearest are 12 and 16"));
  EXPECT_THAT(refusal([&] { make(weights_of(small()), {.heads = 5, .image_size = 12}); }),
              HasSubstr("--heads 5 does not divide"));
  EXPECT_THAT(refusal([&] { make_as_stated(weights_of(narrow), {.image_size = 12}); }),
              HasSubstr("do not show the number of attention heads"));
  EXPECT_EQ(refusal([&] { make(weights_of(narrow), {.heads = 3, .image_size = 12}); }), "");
  EXPECT_THAT(refusal([&] {
                make(weights_of(without_class_token),
                     {.activation = Activation::kGelu, .image_size = 12});
              }),
              HasSubstr("--pool cls needs a class token"));
  EXPECT_EQ(refusal([&] {
              make(weights_of(without_class_token), {.activation = Activation::kGelu,
                                                     .features = {.pooling = Pooling::kMean},
                                                     .image_size = 12});
            }),
            "");
  EXPECT_THAT(refusal([&] { make(weights_of(without_class_token), {.image_size = 12}); }),
              HasSubstr("vit_base_patch32_siglip_gap_256 (activation gelu_tanh)"));
  EXPECT_THAT(refusal([&] { make_backbone({}, torch::kCPU, Precision::kFp32); }),
              HasSubstr("no backbone was chosen"));
  EXPECT_THAT(refusal([&] {
                make_backbone({.random_seed = 1, .architecture = "resnet50"}, torch::kCPU,
                              Precision::kFp32);
              }),
              HasSubstr("unknown architecture 'resnet50'; known are timm's names"));
  EXPECT_THAT(
      refusal([&] { make_backbone({.module = "/nonexistent.pt"}, torch::kCPU, Precision::kFp32); }),
      HasSubstr("No such file or directory"));
}

TEST_F(BackboneTest, RefusesImagesOfAnotherSize) {
  const auto backbone = make(weights_of(small()), {.image_size = 12});
  EXPECT_EQ(backbone->forward(torch::zeros({0, 3, 12, 12})).sizes(), (std::vector<long>{0, 64}));
  EXPECT_THROW(backbone->forward(torch::zeros({1, 3, 16, 16})), DataError);
  EXPECT_THROW(backbone->forward(torch::zeros({1, 3, 12, 12}, torch::kUInt8)), DataError);
}

TEST_F(BackboneTest, TakesClipsAndGivesAFeatureForEachStep) {
  const Architecture architecture = clip_models()[2].architecture;  // V-JEPA 2
  const auto made = [&](const FeatureOptions& features, std::int64_t frames) {
    return make_backbone({.random_seed = 1,
                          .stated = architecture,
                          .features = features,
                          .image_size = 16,
                          .clip_frames = frames},
                         torch::kCPU, Precision::kFp32);
  };
  const auto time = made({Pooling::kTime}, 6), mean = made({Pooling::kMean}, 6);
  EXPECT_EQ(time->clip_frames(), 6);
  EXPECT_EQ(time->clip_steps(), 3);
  EXPECT_EQ(mean->clip_steps(), 1);
  EXPECT_EQ(time->dimension(), 128);
  EXPECT_EQ(time->row_values(), 3 * 128);
  const torch::Tensor clips = torch::randn({2, 6, 3, 16, 16});
  const torch::Tensor steps = time->forward(clips);
  ASSERT_EQ(steps.sizes(), (std::vector<long>{2, 3 * 128}));
  EXPECT_TRUE(at::allclose(steps.view({2, 3, 128}).mean(1), mean->forward(clips), 0, 1e-5));
  EXPECT_THROW(time->forward(clips.select(1, 0)), DataError);
  EXPECT_THROW(time->forward(clips.narrow(1, 0, 4)), DataError);
  EXPECT_THAT(refusal([&] { made({Pooling::kMean}, 5); }), HasSubstr("clips of 5 frames"));
}

TEST_F(BackboneTest, DescribesWeightsAndResampledPositions) {
  const auto backbone = make(weights_of(small()), {.image_size = 16});
  const Json description = backbone->describe();
  EXPECT_EQ(description["kind"], "vit");
  EXPECT_EQ(description["sha256"], sha256_file(path_));
  EXPECT_EQ(description["architecture"]["patch"], 4);
  EXPECT_EQ(description["positions_resampled_to"], 4);
  EXPECT_FALSE(
      make(weights_of(small()), {.image_size = 12})->describe().contains("positions_resampled_to"));
}

class FallBackTest : public BackboneTest {
 protected:
  void expect_fall_back(const torch::Device& device, const Architecture& architecture = small());
};

// Patches' weights that differ by less than bf16 tells apart: rounded, they lose the image.
void FallBackTest::expect_fall_back(const torch::Device& device, const Architecture& architecture) {
  StateDict weights = weights_of(architecture);
  torch::Tensor& patches = weights["patch_embed.proj.weight"];
  patches = patches * 10 + 1000;
  weights["pos_embed"].zero_();
  write_safetensors(path_, weights, {});
  BackboneOptions options{.weights = path_,
                          .heads = 1,
                          .activation = Activation::kGelu,
                          .features = {.pooling = Pooling::kMean},
                          .image_size = 12};
  const auto build = [&](std::optional<Precision> precision) {
    return make_backbone(options, device, precision);
  };
  EXPECT_EQ(build(Precision::kBf16)->precision(), Precision::kBf16);
  const torch::Tensor frames =
      (torch::arange(12 * 12 * 3) % 256).to(torch::kUInt8).view({1, 12, 12, 3});
  const torch::Tensor levels = (torch::arange(256) / 127.5 - 1).expand({3, 256}).contiguous();
  const torch::Tensor images = (frames.permute({0, 3, 1, 2}) / 127.5 - 1).contiguous();
  options.check = [&] { return CheckInput{images, frames, levels}; };
  const auto backbone = build(Precision::kBf16);
  EXPECT_EQ(backbone->precision(), Precision::kFp32);
  // On a GPU LibTorch's operators take over, which add up these large weights in another order.
  const double tolerance = device.is_cpu() ? 0 : 5e-3;
  EXPECT_TRUE(backbone->forward(images).allclose(build(Precision::kFp32)->forward(images),
                                                 tolerance, tolerance));

  EXPECT_EQ(build(std::nullopt)->precision(), Precision::kFp32);
  options.named_precision = true;
  EXPECT_THAT(refusal([&] { build(Precision::kBf16); }),
              HasSubstr("--precision bf16: features of the first frames have a cosine of"));

  write_safetensors(path_, weights_of(architecture), {});
  EXPECT_EQ(build(Precision::kBf16)->precision(), Precision::kBf16);
}

TEST_F(FallBackTest, ToFp32WhereBf16StraysIsTold) {
  expect_fall_back(torch::kCPU);
}

TEST_F(FallBackTest, RestoresTheWeightsThatLibTorchsOperatorsRounded) {
  Architecture architecture = small();
  architecture.block = BlockKind::kParallelThings;
  architecture.parallel = 2;
  architecture.layer_scale = true;
  expect_fall_back(torch::kCPU, architecture);
}

// They are made of the weights; where LibTorch's operators compute, they are rounded with them.
TEST_F(FallBackTest, RestoresRelativePositionsToo) {
  Architecture architecture = small();
  architecture.relative_positions = true;
  expect_fall_back(torch::kCPU, architecture);
}

TEST_F(FallBackTest, HappensOnAGpuToo) {
  if (!testing::kGpu.device) GTEST_SKIP() << "no GPU: " << testing::kGpu.why_not;
  expect_fall_back(*testing::kGpu.device);
}

// Which one is the machine's affair, that it computes as if it had been named is not.
TEST_F(BackboneTest, WithoutAPrecisionComputesInOneOfTheProcessors) {
  write_safetensors(path_, weights_of(small()), {});
  BackboneOptions options{.weights = path_,
                          .heads = 1,
                          .activation = Activation::kGelu,
                          .features = {.pooling = Pooling::kMean},
                          .image_size = 12};
  const torch::Tensor images = torch::linspace(-1, 1, 3 * 3 * 144).view({3, 3, 12, 12});
  options.check = [&] { return CheckInput{images, {}, {}}; };
  const auto automatic = make_backbone(options, torch::kCPU, std::nullopt);
  EXPECT_THAT(cpu::quick_precisions(), ::testing::Contains(automatic->precision()));
  EXPECT_TRUE(automatic->forward(images).equal(
      make_backbone(options, torch::kCPU, automatic->precision())->forward(images)));
}

TEST(RandomWeights, AreTheSameNumbersEverywhere) {
  RandomSource source(42);
  const torch::Tensor weight = source.take("blocks.0.attn.qkv.weight", {1152, 384});
  EXPECT_EQ(sha256_hex({static_cast<const char*>(weight.data_ptr()), weight.nbytes()}),
            "39e023424d22bd53b64ab8cf36182a9a8460271ad7c4f3b40f99fd8da65b7633");
  EXPECT_NEAR(weight.mean().item<double>(), 0, 1e-3);
  EXPECT_NEAR(weight.std().item<double>(), 1 / std::sqrt(384.), 1e-4);
  EXPECT_FALSE(weight.equal(RandomSource(43).take("blocks.0.attn.qkv.weight", {1152, 384})));
  EXPECT_FALSE(weight.equal(source.take("blocks.1.attn.qkv.weight", {1152, 384})));
}

// Brightness must reach the features: with an untrained ViT's usual start it hardly does.
TEST(RandomWeights, MakeFeaturesThatDependOnTheImage) {
  const auto backbone = make_backbone({.random_seed = 3,
                                       .architecture = "vit_tiny_patch16_224",
                                       .features = {.pooling = Pooling::kMean},
                                       .image_size = 64},
                                      torch::kCPU, Precision::kFp32);
  torch::Tensor images = torch::full({3, 3, 64, 64}, -0.5);
  images[1].slice(1, 16, 48).slice(2, 16, 48).fill_(0.5);
  images[2].fill_(-0.4);
  const torch::Tensor features = backbone->forward(images);
  const auto distance = [&](int a, int b) {
    return (features[a] - features[b]).norm().item<double>() / features[a].norm().item<double>();
  };
  EXPECT_GT(distance(0, 1), 0.1);
  EXPECT_GT(distance(0, 2), 0.01);
  EXPECT_LT(distance(0, 2), distance(0, 1));
}

TEST(StateDictNames, StripsWrappersAndKeepsTheBackboneAlone) {
  const torch::Tensor t = torch::ones({1});
  const auto names = [](const StateDict& tensors) {
    std::vector<std::string> all;
    for (const auto& [name, tensor] : tensors) all.push_back(name);
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(strip_prefixes({{"module.a", t}, {"module.b", t}})), (Names{"a", "b"}));
  EXPECT_EQ(names(strip_prefixes({{"module.a", t}, {"b", t}})), (Names{"b", "module.a"}));
  set_quiet(true);
  EXPECT_EQ(names(strip_prefixes({{"module.backbone.a", t}, {"module.head.b", t}})), (Names{"a"}));
}

}  // namespace
}  // namespace coldframe::vit
