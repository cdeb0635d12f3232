// Presets as options and architectures take them; tests/extract/preprocess/test_presets.py holds
// their pixels against their sources.
#include "extract/pipeline/preset.h"

#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "extract/options.h"
#include "extract/vit/published/published.h"
#include "extract/vit/resolve_architecture.h"

namespace coldframe::extract {
namespace {

TEST(Presets, MayLeaveThePoolingOpen) {
  std::vector<std::string> words{"--input",      "a",         "--out", "b.h5", "--preset",
                                 "retfound-mae", "--weights", "w"};
  EXPECT_THROW(parse_extract_options(words), ConfigError);
  words.insert(words.end(), {"--pool", "mean"});
  EXPECT_EQ(parse_extract_options(words)->backbone.features.pooling, vit::Pooling::kMean);
  EXPECT_TRUE(parse_extract_options({"--input", "a", "--dry-run", "--preset", "retfound-mae"}));
}

TEST(Presets, HaveArchitecturesThatTheirSizesAndPoolingsGoWith) {
  for (const Preset& preset : presets()) {
    vit::BackboneOptions options;
    options.features.pooling = preset.pooling.value_or(vit::Pooling::kClsMean);
    options.image_size = preset.preprocessing.image_size;
    EXPECT_NO_THROW(
        vit::check_options(options, vit::find_published(preset.architecture).architecture))
        << preset.name;
  }
}

}  // namespace
}  // namespace coldframe::extract
