#include "common/torch/memory_trace.h"

#include <c10/core/Allocator.h>
#include <torch/cuda.h>

#include <algorithm>
#include <mutex>

namespace coldframe {

// LibTorch's allocators tell the thread's profiler what they give and get, the counting one too.
// On a GPU a backward pass runs on a thread of its own, which inherits the profiler.
class MemoryTrace::Account : public c10::MemoryReportingInfoBase {
 public:
  Account(const torch::Device& device, bool keeps_rises)
      : type_(device.type()), keeps_rises_(keeps_rises) {}

  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device device) override {
    if (device.type() != type_) return;
    const std::lock_guard lock(mutex_);
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    if (bytes > 0 && keeps_rises_) rises_.push_back(live_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  std::vector<std::int64_t> rises() const {
    const std::lock_guard lock(mutex_);
    return rises_;
  }

 private:
  c10::DeviceType type_;
  bool keeps_rises_;
  mutable std::mutex mutex_;
  std::int64_t live_ = 0, peak_ = 0;
  std::vector<std::int64_t> rises_;
};

MemoryTrace::MemoryTrace(const torch::Device& device, Rises rises)
    : account_(std::make_shared<Account>(device, rises == Rises::kKept)),
      follows_(c10::DebugInfoKind::PROFILER_STATE, account_) {}

std::int64_t MemoryTrace::live() const {
  return account_->live();
}

std::int64_t MemoryTrace::peak() const {
  return account_->peak();
}

std::vector<std::int64_t> MemoryTrace::rises() const {
  return account_->rises();
}

DeviceTimer::DeviceTimer(const torch::Device& device) : device_(device) {
  wait();
  start_ = std::chrono::steady_clock::now();
}

double DeviceTimer::seconds() const {
  wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void DeviceTimer::wait() const {
  if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
}

}  // namespace coldframe
