// What names and shapes of weights leave open is taken from published models only where it is
// unique.
#include "extract/vit/published/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "extract/vit/resolve_architecture.h"

namespace coldframe::vit {
namespace {

using ::testing::HasSubstr;

// A published model as its weights show it.
Architecture shown(const std::string& name) {
  Architecture architecture = find_published(name).architecture;
  const Architecture usual;
  for (const Field& field : fields())
    if (!field.shown && field.key != "block") field.set(architecture, field.text(usual));
  architecture.heads = 0;
  return architecture;
}

std::string question(const Architecture& architecture, const StoredNames& names = {},
                     const StatedFields& stated = {}) {
  set_quiet(true);
  try {
    identify(architecture, names, stated);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Identify, TakesWhatAllModelsOfTheseShapesHave) {
  set_quiet(true);
  const Architecture so400m = identify(shown("vit_so400m_patch14_siglip_gap_224"), {}, {});
  EXPECT_EQ(so400m.heads, 16);  // of 72 features, not 18 of 64
  EXPECT_EQ(identify(shown("vit_base_patch16_rpn_224"), {}, {}).block, BlockKind::kPostNorm);
  const Architecture dinov3 = identify(shown("vit_small_plus_patch16_dinov3"), {true, true}, {});
  EXPECT_EQ(dinov3.rotary, Rotary::kDinov3);
  EXPECT_EQ(dinov3.activation, Activation::kSilu);
}

TEST(Identify, LeavesOutDepthAndTheImagesSize) {
  Architecture cut = shown("vit_small_patch16_224");
  cut.depth = 3;
  cut.position_grid = 40;
  cut.patch = 12;
  cut.mlp_hidden = 100;
  set_quiet(true);
  EXPECT_EQ(identify(cut, {}, {}).heads, 6);
}

TEST(Identify, AsksWhereModelsOfTheseShapesDiffer) {
  const Architecture clip = shown("vit_base_patch32_clip_224");
  EXPECT_THAT(question(clip),
              HasSubstr("vit_base_patch32_clip_quickgelu_224 (activation quick_gelu)"));
  EXPECT_THAT(question(clip), HasSubstr("--architecture"));
  const Architecture quick = identify(clip, {}, {.activation = Activation::kQuickGelu});
  EXPECT_EQ(quick.activation, Activation::kQuickGelu);
  EXPECT_EQ(quick.heads, 12);
  EXPECT_EQ(quick.norm_epsilon, 1e-5);
}

TEST(Identify, TakesTheModelThatHasWhatIsStated) {
  set_quiet(true);
  const Architecture siglip = shown("vit_so400m_patch14_siglip_224");
  EXPECT_THAT(question(siglip), HasSubstr("activation gelu_tanh"));
  const Architecture tanh = identify(siglip, {}, {.activation = Activation::kGeluTanh});
  EXPECT_EQ(tanh.pool_activation, Activation::kGeluTanh);
  EXPECT_EQ(tanh.activation, Activation::kGeluTanh);
}

TEST(Identify, KnowsTheModelsOfModelCards) {
  set_quiet(true);
  for (const char* name : {"uni", "uni2_h", "virchow2", "prov_gigapath", "phikon_v2"}) {
    const Architecture& model = find_published(name).architecture;
    EXPECT_EQ(to_json(identify(shown(name), {}, {})), to_json(model)) << name;
  }
}

// DeiT III's own names are those of a ViT with rotary positions, too.
TEST(Identify, AsksAboutNamesThatTwoRepositoriesGive) {
  const Architecture deit3 = shown("deit3_small_patch16_224");
  EXPECT_EQ(question(deit3), "");
  EXPECT_THAT(question(deit3, {.gamma_names = true}),
              HasSubstr("vit_small_patch16_rope_ape_224 (rotary positions axial"));
}

TEST(Identify, AsksAboutWidthsAndPartsThatNobodyPublishes) {
  Architecture narrow = shown("vit_small_patch16_224");
  narrow.width = 48;
  EXPECT_THAT(question(narrow), HasSubstr("do not show the number of attention heads"));
  EXPECT_EQ(question(narrow, {}, {.heads = 3}), "");
  narrow.projection_bias = false;
  EXPECT_THAT(question(narrow), HasSubstr("no published ViT has the parts"));
  EXPECT_EQ(question(narrow, {}, {3, Activation::kGelu}), "");
  narrow.positions = false;
  EXPECT_THAT(question(narrow, {}, {3, Activation::kGelu}), HasSubstr("absolute positions 0"));
}

TEST(CheckHeads, AsksForFoursWithRotaryPositions) {
  Architecture architecture = find_published("vit_small_patch16_rope_224").architecture;
  const BackboneOptions options{.heads = 64};
  architecture.heads = 64;
  EXPECT_THROW(check_heads(options, architecture), ConfigError);  // of 6 features
  architecture.heads = 48;
  EXPECT_NO_THROW(check_heads(options, architecture));
}

TEST(Published, NamesMayCarryATag) {
  EXPECT_EQ(find_published("vit_small_patch16_224.dino").architecture.heads, 6);
  EXPECT_THROW(find_published("vit_small_patch17_224"), ConfigError);
  EXPECT_THROW(find_published("vit_large_patch16_sapiens2"), ConfigError);
}

}  // namespace
}  // namespace coldframe::vit
