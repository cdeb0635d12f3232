// A test of what only a GPU does; skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/cli/error.h"
#include "common/torch/device.h"

namespace coldframe::testing {

struct Gpu {
  std::optional<torch::Device> device;
  std::string why_not;
};

inline Gpu look_for_gpu() {
  try {
    return {resolve_device("cuda"), ""};
  } catch (const SystemError& error) {
    return {std::nullopt, error.what()};
  }
}

// LibTorch looks for CUDA once, with the first thing that it does. This is before the first test,
// so that a whole program of tests finds its GPU, too.
inline const Gpu kGpu = look_for_gpu();

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kGpu.device) GTEST_SKIP() << "no GPU: " << kGpu.why_not;
    device_ = *kGpu.device;
  }

  torch::Device device_{torch::kCPU};  // the GPU once it is set up
};

}  // namespace coldframe::testing
