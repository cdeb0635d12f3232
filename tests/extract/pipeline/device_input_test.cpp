#include <gtest/gtest.h>

#include "extract/pipeline/batch.h"
#include "tests/support/gpu_test.h"

namespace coldframe::extract {
namespace {

preprocess::Preprocessing imagenet() {
  preprocess::Preprocessing p;
  p.image_size = 37;
  p.mean = {0.485f, 0.456f, 0.406f};
  p.std = {0.229f, 0.224f, 0.225f};
  return p;
}

torch::Tensor every_level() {
  return torch::arange(3 * 37 * 37 * 3, torch::kInt64)
      .remainder(256)
      .to(torch::kUInt8)
      .reshape({3, 37, 37, 3});
}

TEST(DeviceInput, NormalisesEveryFrameOfABatchLikeTheOperators) {
  const torch::Tensor frames = every_level(), images = DeviceInput(imagenet(), torch::kCPU)(frames);
  const auto mean = torch::tensor({0.485f, 0.456f, 0.406f}),
             std = torch::tensor({0.229f, 0.224f, 0.225f});
  const auto expected =
      frames.to(torch::kFloat32).div(255).sub(mean).div(std).permute({0, 3, 1, 2});
  ASSERT_EQ(images.sizes(), expected.sizes());
  EXPECT_TRUE(images.equal(expected.contiguous()));
}

class DeviceInputOnGpu : public testing::GpuTest {};

// Oblong frames by LibTorch's operators, others by our kernel.
TEST_F(DeviceInputOnGpu, EqualsTheCpus) {
  for (const torch::Tensor& frames : {every_level(), every_level().narrow(1, 0, 20).contiguous()})
    EXPECT_TRUE(DeviceInput(imagenet(), device_)(frames).cpu().equal(
        DeviceInput(imagenet(), torch::kCPU)(frames)));
}

}  // namespace
}  // namespace coldframe::extract
