// What configs beside weights say of pixels and parts, and what of it is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "common/cli/error.h"
#include "extract/vit/config/model_config.h"

namespace coldframe::vit {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

PixelConfig older_processor(const char* type, const std::string& model_type = "vit") {
  Json json{{"size", 256}, {"crop_size", 224}, {"do_center_crop", true}};
  if (type != nullptr) json["feature_extractor_type"] = type;
  return read_image_processor(json, model_type);
}

// The processors' default_to_square decides.
TEST(ImageProcessor, TakesALoneSizeForBothEdgesOrTheShortest) {
  const PixelConfig deit = older_processor("DeiTFeatureExtractor");
  EXPECT_EQ(deit.resize, "squash");
  EXPECT_EQ(deit.image_size, 224);
  EXPECT_EQ(std::floor(224 / *deit.crop_pct), 256);
  EXPECT_EQ(older_processor("BeitImageProcessor").resize, "squash");
  EXPECT_EQ(older_processor("CLIPFeatureExtractor").resize, "shortest");
  EXPECT_EQ(older_processor("BitImageProcessorFast").resize, "shortest");
  EXPECT_EQ(older_processor(nullptr, "deit").resize, "squash");
  EXPECT_EQ(older_processor(nullptr, "clip").resize, "shortest");
  EXPECT_THAT(refusal_of([] { older_processor("LevitFeatureExtractor"); }),
              HasSubstr("'LevitFeatureExtractor', expected one of ViT, DeiT"));
}

// transformers keeps a null that stands in the file, which is then no default but false.
TEST(ImageProcessor, LeavesOutStepsThatAreNull) {
  const PixelConfig pixels = read_image_processor(
      {{"image_processor_type", "ViTImageProcessor"}, {"do_normalize", nullptr}}, "vit");
  EXPECT_EQ(pixels.mean, (std::array{0.0f, 0.0f, 0.0f}));
  EXPECT_EQ(pixels.std, (std::array{1.0f, 1.0f, 1.0f}));
  EXPECT_THAT(refusal_of([] {
                read_image_processor(
                    {{"image_processor_type", "ViTImageProcessor"}, {"do_resize", nullptr}}, "vit");
              }),
              HasSubstr("'do_resize' is false"));
}

TEST(TimmConfig, MayStateOblongImages) {
  const ModelConfig config =
      read_timm_config({{"architecture", "vit_tiny_patch16_224"},
                        {"pretrained_cfg", {{"input_size", {3, 224, 320}}}}});
  EXPECT_EQ(config.pixels.image_size, ImageSize(224, 320));
}

// transformers/models/*/image_processing_*.py.
TEST(ImageProcessor, HasItsClasssDefaultsWhereItSaysNothing) {
  const auto of = [](const char* type) {
    return read_image_processor({{"image_processor_type", type}}, "vit");
  };
  const PixelConfig vit = of("ViTImageProcessorFast"), clip = of("CLIPImageProcessor");
  EXPECT_EQ(vit.interpolation, "bilinear");
  EXPECT_EQ(vit.resize, "squash");
  EXPECT_EQ(vit.mean, (std::array{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(clip.interpolation, "bicubic");
  EXPECT_EQ(clip.resize, "shortest");
  EXPECT_EQ(clip.mean, (std::array{0.48145466f, 0.4578275f, 0.40821073f}));
  EXPECT_EQ(of("DeiTImageProcessor").resize, "squash");
  EXPECT_LT(*of("DeiTImageProcessor").crop_pct, 1);
  EXPECT_EQ(*of("BeitImageProcessor").crop_pct, 1);
  EXPECT_EQ(of("DINOv3ViTImageProcessor").mean, (std::array{0.485f, 0.456f, 0.406f}));
  EXPECT_EQ(read_image_processor(Json::object(), "dinov2").resize, "shortest");
}

TEST(ImageProcessor, RefusesWhatItDoesNotCarryOut) {
  for (const char* step : {"do_pad", "do_flip_channel_order"})
    EXPECT_THAT(refusal_of([&] { read_image_processor({{step, true}}, "vit"); }), HasSubstr(step));
  EXPECT_THAT(refusal_of([] {
                read_image_processor({{"do_resize", false}}, "vit");
              }),
              HasSubstr("'do_resize' is false"));
}

TEST(ImageProcessor, RefusesImagesOfVaryingSizes) {
  const Json naflex{{"image_processor_type", "Siglip2ImageProcessor"}, {"max_num_patches", 256}};
  EXPECT_THAT(refusal_of([&] { read_image_processor(naflex, "siglip2"); }),
              HasSubstr("'max_num_patches'"));
}

TEST(ImageProcessor, RefusesDeviationsThatNothingCanBeDividedBy) {
  for (const Json& std : {Json(0), Json::array({0.2, -0.2, 0.2}), Json(1e-60)})
    EXPECT_THAT(refusal_of([&] {
                  read_image_processor({{"image_std", std}}, "vit");
                }),
                HasSubstr("'image_std'"));
}

// forward() of each class: DeiTForImageClassificationWithTeacher averages two heads.
TEST(TransformersConfig, HasTheFeaturesOfTheClassThatWroteIt) {
  const auto of = [](const char* type, const char* made_as) {
    return read_transformers_config({{"model_type", type}, {"architectures", {made_as}}});
  };
  EXPECT_EQ(of("deit", "DeiTForImageClassificationWithTeacher").pool, "prefix-mean");
  EXPECT_EQ(of("deit", "DeiTForImageClassification").pool, "cls");
  EXPECT_EQ(read_transformers_config({{"model_type", "deit"}}).pool, "cls");
  EXPECT_TRUE(of("clip_vision_model", "CLIPVisionModelWithProjection").projection);
  EXPECT_FALSE(of("clip_vision_model", "CLIPVisionModel").projection);
  EXPECT_TRUE(read_transformers_config({{"model_type", "clip"},
                                        {"architectures", {"CLIPModel"}},
                                        {"vision_config", {{"patch_size", 16}}}})
                  .projection);
}

TEST(TimmConfig, OfADistilledDeitIsTheMeanOfItsTwoTokens) {
  EXPECT_EQ(read_timm_config(
                {{"architecture", "deit_tiny_distilled_patch16_224"}, {"global_pool", "token"}})
                .pool,
            "prefix-mean");
}

TEST(OpenClipConfig, ProjectsAsEncodeImageDoes) {
  const auto of = [](Json vision) {
    return read_open_clip_config({{"model_cfg", {{"embed_dim", 512}, {"vision_cfg", vision}}}});
  };
  const Json tower{{"timm_model_name", "vit_tiny_patch16_224"}, {"timm_pool", ""}};
  const auto with = [&](const char* projection) {
    Json vision = tower;
    vision["timm_proj"] = projection;
    return of(vision);
  };
  EXPECT_TRUE(of({{"width", 64}, {"layers", 2}, {"image_size", 48}}).projection);
  EXPECT_TRUE(of(tower).projection);
  EXPECT_TRUE(with("linear").projection);
  EXPECT_TRUE(with("").projection);  // the trunk's own head
  EXPECT_FALSE(with("none").projection);
  EXPECT_FALSE(with("none").pool.empty());
  EXPECT_TRUE(with("mlp").pool.empty());  // which Coldframe has not: --pool is asked for
}

TEST(TransformersConfig, StatesThePartsOfItsKind) {
  const ModelConfig beit =
      read_transformers_config({{"model_type", "beit"}, {"use_relative_position_bias", true}});
  EXPECT_THAT(beit.compared, Contains("relative_positions"));
  EXPECT_TRUE(beit.architecture.relative_positions);
  EXPECT_FALSE(beit.architecture.positions);
  EXPECT_TRUE(beit.architecture.layer_scale);
  Architecture weights = beit.architecture;
  EXPECT_EQ(refusal_of([&] { require_same(weights, beit.scheme, beit); }), "");
  weights.relative_positions = false;
  EXPECT_THAT(refusal_of([&] { require_same(weights, beit.scheme, beit); }),
              HasSubstr("relative positions 0 instead of 1"));
}

TEST(TransformersConfig, RefusesSizesOutOfBounds) {
  for (const Json& size : {Json(-1), Json::array({-1, -1}), Json(18446744073709551615u)})
    EXPECT_THAT(refusal_of([&] {
                  read_transformers_config({{"model_type", "vit"}, {"image_size", size}});
                }),
                HasSubstr("'image_size'"));
}

TEST(OpenClipConfig, RefusesANormBehindPooling) {
  Json vision{{"width", 64}, {"layers", 2}, {"final_ln_after_pool", false}};
  const auto read = [&] { read_open_clip_config({{"model_cfg", {{"vision_cfg", vision}}}}); };
  EXPECT_EQ(refusal_of(read), "");
  vision["final_ln_after_pool"] = true;
  EXPECT_THAT(refusal_of(read), HasSubstr("'final_ln_after_pool', which is not supported"));
}

// open_clip/model.py, CLIPVisionCfg.
TEST(OpenClipConfig, PoolsTimmsModelsAsItSays) {
  const auto pool_of = [](const Json& more) {
    Json vision{{"timm_model_name", "vit_tiny_patch16_224"}};
    vision.update(more);
    return read_open_clip_config({{"model_cfg", {{"vision_cfg", vision}}}}).pool;
  };
  EXPECT_EQ(pool_of(Json::object()), "mean");
  EXPECT_EQ(pool_of({{"timm_pool", ""}}), "cls");
  EXPECT_EQ(pool_of({{"timm_pool", "abs_attn"}}), "");
  EXPECT_THAT(refusal_of([&] {
                pool_of({{"timm_model_kwargs", {{"use_naflex", true}}}});
              }),
              HasSubstr("'use_naflex', which is not understood"));
}

TEST(OpenClipConfig, RefusesWhatMakesAnotherEncoder) {
  for (const char* key : {"scale_heads", "no_ln_pre", "unheard_of"}) {
    const Json vision{{"width", 64}, {"layers", 2}, {key, true}};
    EXPECT_THAT(refusal_of([&] {
                  read_open_clip_config({{"model_cfg", {{"vision_cfg", vision}}}});
                }),
                HasSubstr(key));
  }
}

}  // namespace
}  // namespace coldframe::vit
