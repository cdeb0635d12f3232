// A test of what only a GPU does; skipped where there is none.
#pragma once

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/torch/device.h"

namespace coldframe::testing {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = resolve_device("cuda");
    } catch (const SystemError& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
  }

  torch::Device device_{torch::kCPU};  // the GPU once it is set up
};

}  // namespace coldframe::testing
