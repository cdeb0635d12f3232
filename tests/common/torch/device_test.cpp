#include "common/torch/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <atomic>
#include <latch>
#include <limits>
#include <thread>

#include "common/cli/error.h"
#include "common/system/gpu_libraries.h"
#include "common/threads/threads.h"
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

// Half the least normal number, which is denormal; the compiler cannot know it.
float half_the_least() {
  volatile float least = std::numeric_limits<float>::min();
  return least / 2;
}

// Twice a denormal number that exists already: 0 where denormals count as zero.
float twice_a_denormal() {
  volatile float denormal = std::numeric_limits<float>::denorm_min();
  return denormal * 2;
}

// Runs on a thread of its own, as other tests have set this one's mode.
template <typename Body>
void on_new_thread(const Body& body) {
  at::globalContext().setFlushDenormal(false);
  std::jthread{body}.join();
}

TEST(Threads, ThatComputeCountDenormalsAsZero) {
  on_new_thread([] {
    ASSERT_GT(half_the_least(), 0) << "the mode was set before";
    torch::set_num_threads(3);
    std::atomic<int> kept = 0, looked = 0;
    const auto look = [&] {
      kept += half_the_least() != 0 || twice_a_denormal() != 0;
      ++looked;
    };
    at::parallel_for(0, 3, 1, [](std::int64_t, std::int64_t) {});  // a team from before
    set_torch_threads(3);
    look();
    at::parallel_for(0, 3, 1, [&](std::int64_t, std::int64_t) { look(); });
    run_threads(2, look);
    run_threads(1, [&] {
      set_torch_threads(2);
      at::parallel_for(0, 2, 1, [&](std::int64_t, std::int64_t) { look(); });
    });
    std::latch between_operators(1);
    at::launch([&] {
      look();
      between_operators.count_down();
    });
    between_operators.wait();
    torch::Tensor x = torch::ones({2}, torch::requires_grad());
    x.register_hook([&](const torch::Tensor& gradient) {
      look();
      return gradient;
    });
    x.sum().backward();
    EXPECT_EQ(looked, 1 + 3 + 2 + 2 + 1 + 1);
    EXPECT_EQ(kept, 0);
  });
}

}  // namespace
}  // namespace coldframe
