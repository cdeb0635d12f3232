#include "common/torch/memory.h"
#include "common/torch/tensor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <thread>
#include <vector>

namespace coldframe {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

torch::Tensor mebibytes(std::int64_t count) {
  return torch::empty({count * static_cast<std::int64_t>(kMebibyte)}, torch::kUInt8);
}

class CpuMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { count_cpu_memory(); }
  void TearDown() override { count_cpu_memory(0); }
};

TEST_F(CpuMemoryTest, CountsLiveBytesAndTheirPeak) {
  const auto before = cpu_memory().live;
  reset_cpu_memory_peak();
  {
    const auto kept = mebibytes(4);
    EXPECT_EQ(cpu_memory().live, before + 4 * kMebibyte);
    { const auto brief = mebibytes(8); }
    EXPECT_EQ(cpu_memory().live, before + 4 * kMebibyte);
  }
  EXPECT_EQ(cpu_memory().live, before);
  EXPECT_EQ(cpu_memory().peak, before + 12 * kMebibyte);
  reset_cpu_memory_peak();
  EXPECT_EQ(cpu_memory().peak, before);
}

TEST_F(CpuMemoryTest, RefusesWhatGoesBeyondTheLimitAndTakesNothing) {
  const auto live = cpu_memory().live;
  count_cpu_memory(live + 10 * kMebibyte);
  const auto kept = mebibytes(6);
  EXPECT_THROW(mebibytes(5), c10::OutOfMemoryError);
  EXPECT_EQ(cpu_memory().live, live + 6 * kMebibyte);
  EXPECT_NO_THROW(mebibytes(4));
  count_cpu_memory(0);
  EXPECT_NO_THROW(mebibytes(64));
}

TEST_F(CpuMemoryTest, CountsOneDnnBuffers) {
  const auto input = torch::rand({64, 512}), weight = torch::rand({256, 512});
  count_cpu_memory(cpu_memory().live + 16 * 1024);  // the result alone needs 64 KiB
  EXPECT_THROW(torch::linear(input, weight), c10::OutOfMemoryError);
}

TEST_F(CpuMemoryTest, BlocksAreAlignedAndGrowInPlaceOfNothing) {
  for (const std::int64_t bytes : {1, 63, 64, 65, 4097}) {
    const auto tensor = torch::empty({bytes}, torch::kUInt8);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0u) << bytes;
  }
  auto grown = torch::arange(3);
  grown.resize_({100000});
  EXPECT_EQ(grown[2].item<std::int64_t>(), 2);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
}

TEST_F(CpuMemoryTest, CountsRightWithSeveralThreads) {
  const auto before = cpu_memory().live;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int round = 0; round < 200; ++round) mebibytes(1 + round % 3);
    });
  threads.clear();
  EXPECT_EQ(cpu_memory().live, before);
}

TEST_F(CpuMemoryTest, SharesHoldForAThreadAndThoseThatWorkForIt) {
  torch::Tensor outlives;
  const auto job = [&](bool keeps) {
    const CpuMemoryShare share(4 * kMebibyte);
    const auto kept = mebibytes(3);
    EXPECT_THROW(mebibytes(2), c10::OutOfMemoryError);
    std::jthread([begin = join_cpu_memory_share()] {
      begin();
      EXPECT_THROW(mebibytes(2), c10::OutOfMemoryError);
      mebibytes(1);
    });
    std::jthread([] { mebibytes(9); });  // works for nobody
    if (keeps) outlives = kept;
  };
  const auto before = cpu_memory().live;
  {
    std::jthread first([&] { job(true); }), second([&] { job(false); });
  }
  mebibytes(9);
  EXPECT_EQ(cpu_memory().live, before + 3 * kMebibyte);
  outlives.reset();
  EXPECT_EQ(cpu_memory().live, before);
}

TEST(DeviceMemory, BudgetsTheCpuAndTellsItsPeak) {
  const torch::Device cpu(torch::kCPU);
  budget_device_memory("cpu", cpu_memory().live + 8 * kMebibyte);
  reset_device_memory_peak(cpu);
  const auto before = peak_device_memory(cpu);
  { const auto kept = mebibytes(3); }
  EXPECT_EQ(peak_device_memory(cpu), before + 3 * kMebibyte);
  EXPECT_THROW(mebibytes(9), c10::OutOfMemoryError);
  budget_device_memory("cpu", 0);
  EXPECT_NO_THROW(mebibytes(9));
}

TEST(DeviceMemory, LeavesTheSettingsOfCudasAllocatorToTheUser) {
  EXPECT_EQ(allocator_settings("", 1), "expandable_segments:True");
  EXPECT_EQ(allocator_settings("", 0.25),
            "expandable_segments:True,per_process_memory_fraction:0.250000");
  EXPECT_EQ(allocator_settings("max_split_size_mb:64", 1.5), "max_split_size_mb:64");
  EXPECT_EQ(allocator_settings("max_split_size_mb:64", 0.5),
            "max_split_size_mb:64,per_process_memory_fraction:0.500000");
  EXPECT_EQ(allocator_settings("per_process_memory_fraction:0.9", 0.5),
            "per_process_memory_fraction:0.9");
}

TEST(DeviceMemory, BoundsTheWorkspacesOfCublasUnlessTheUserDid) {
  const auto now = [] { return std::string(::getenv("CUBLAS_WORKSPACE_CONFIG")); };
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  EXPECT_EQ(cuda_workspace(nullptr), 32 * kMebibyte);
  bound_cuda_workspaces();
  EXPECT_EQ(now(), ":4096:2");
  EXPECT_EQ(cuda_workspace(now().c_str()), 8 * kMebibyte);
  EXPECT_EQ(cuda_training_workspaces(), 2 * 9 * kMebibyte);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  bound_cuda_workspaces();
  EXPECT_EQ(now(), ":16:8");
  EXPECT_EQ(cuda_training_workspaces(), 2 * (kMebibyte + kMebibyte / 8));
  EXPECT_EQ(cuda_workspace("nonsense"), 32 * kMebibyte);
  ::setenv("CUBLASLT_WORKSPACE_SIZE", "4096", 1);
  EXPECT_EQ(cuda_training_workspaces(), 2 * (4 * kMebibyte + kMebibyte / 8));
  ::setenv("CUBLASLT_WORKSPACE_SIZE", "nonsense", 1);
  EXPECT_EQ(cuda_training_workspaces(), 2 * (kMebibyte + kMebibyte / 8));
  ::unsetenv("CUBLASLT_WORKSPACE_SIZE");
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

}  // namespace
}  // namespace coldframe
