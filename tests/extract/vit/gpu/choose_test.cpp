#include "extract/vit/gpu/choose.h"

#include <gtest/gtest.h>

#include "common/cli/log.h"
#include "extract/cuda/library.h"
#include "tests/extract/vit/engine_models.h"

namespace coldframe::vit::gpu {
namespace {

// make_engine() asks for the kernels' library alone, which a machine without a GPU opens, too.
TEST(GpuEngineChoice, TakesWhatItCanComputeAndNoShortcutsInFp32) {
  SmallModel one{"plain", small_architecture(64, 2, 16, 14), 224};
  const auto choose = [&](const ImageSize& size, Precision precision) {
    VisionTransformer model = one.make();
    BackboneOptions options;
    options.image_size = size;
    return make_engine(*model, options, torch::kCPU, precision, /*checked=*/false);
  };
  set_quiet(true);
  const bool built = cuda::kernels() != nullptr;
  EXPECT_EQ(choose(224, Precision::kFp32) != nullptr, built);
  if (built) {
    EXPECT_FALSE(choose(224, Precision::kFp32)->compute_exactly());
    EXPECT_TRUE(choose(224, Precision::kBf16)->compute_exactly());  // without cuDNN's attention
  }
  EXPECT_EQ(choose({224, 192}, Precision::kFp32), nullptr);
  one.architecture.differential = true;
  turn(one.architecture, Rotary::kAxial, true);
  EXPECT_EQ(choose(224, Precision::kFp32), nullptr);
}

}  // namespace
}  // namespace coldframe::vit::gpu
