// What something takes that runs on a device: bytes of tensors, allocation by allocation, and
// seconds.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

// Follows, from its construction on, what the thread that made it takes and gives back on a device,
// and so do backward passes that it starts. Another one that is made meanwhile goes before it. The
// CPU's memory has to be counted by now (count_cpu_memory()).
class MemoryTrace {
 public:
  enum class Rises { kForgotten, kKept };
  explicit MemoryTrace(const torch::Device& device, Rises rises = Rises::kForgotten);

  // Bytes above those at the start; below 0 where more was given back than taken.
  std::int64_t live() const;
  std::int64_t peak() const;                // at least 0
  std::vector<std::int64_t> rises() const;  // live() after each allocation, if they are kept

 private:
  class Account;
  std::shared_ptr<Account> account_;
  c10::DebugInfoGuard follows_;
};

// Seconds since its construction. A GPU computes asynchronously: both ends wait for it.
class DeviceTimer {
 public:
  explicit DeviceTimer(const torch::Device& device);
  double seconds() const;

 private:
  void wait() const;

  torch::Device device_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace coldframe
