#include "common/torch/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "common/system/gpu_libraries.h"
#include "common/torch/memory.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using ::testing::StartsWith;

TEST(Device, CpuIsAlwaysThere) {
  EXPECT_TRUE(resolve_device("cpu").is_cpu());
  EXPECT_THAT(device_name(torch::Device("cpu")), StartsWith("cpu ("));
}

TEST(Device, WordsThatAreNoDeviceAreConfigErrors) {
  for (const char* word : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:999", "CPU"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { resolve_device(word); }),
                HasSubstr("expected auto, cpu, cuda or cuda:N"))
        << word;
  }
}

TEST(Device, WithoutAGpuAutoIsTheCpuAndCudaSaysWhy) {
  if (cuda_driver::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(resolve_device("auto").is_cpu());
  EXPECT_FALSE(cuda_driver::reason_for_none().empty());
  for (const char* word : {"cuda", "cuda:0"}) {
    const std::string message = message_of<SystemError>([&] { resolve_device(word); });
    EXPECT_THAT(message, HasSubstr(cuda_driver::reason_for_none()));
    EXPECT_THAT(message, HasSubstr("--device cpu"));
  }
}

TEST(Device, WithAGpuAutoComputesOnIt) {
  if (cuda_driver::device_count() == 0) GTEST_SKIP() << cuda_driver::reason_for_none();
  const torch::Device device = resolve_device("auto");
  ASSERT_TRUE(device.is_cuda());
  EXPECT_THAT(device_name(device), HasSubstr(cuda_driver::device_name(0)));
  EXPECT_NO_THROW(live_device_memory(device));  // before anybody has allocated
  EXPECT_NO_THROW(reset_device_memory_peak(device));
  const torch::Tensor ones = torch::ones({64, 64}, device);
  EXPECT_EQ(torch::matmul(ones, ones).sum().item<double>(), 64.0 * 64 * 64);
  EXPECT_THAT(message_of<SystemError>([] { resolve_device("cuda:127"); }),
              HasSubstr("the last is"));
}

}  // namespace
}  // namespace coldframe
