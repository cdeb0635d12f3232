// libcoldframe_cuda_graphs.so: the one piece that needs LibTorch's CUDA half at link time. Opened
// at run time by graphs.cpp, after that half has been (common/torch/device.cpp).
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>

#include "common/torch/graphs.h"

namespace coldframe {
namespace {

std::uint64_t reserved_bytes(c10::DeviceIndex device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  return static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current);
}

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(c10::MempoolId_t pool)
      : stream_(c10::cuda::getCurrentCUDAStream()), pool_(pool) {}
  ~CudaGraph() override {
    try {
      stream_.synchronize();  // a replay may be under way
      graph_.reset();
    } catch (const std::exception&) {
      // The next call that waits for the device tells what went wrong on it.
    }
  }

  void capture(const std::function<void()>& work) override {
    const std::uint64_t before = reserved_bytes(stream_.device_index());
    std::exception_ptr error;
    begin();
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    try {
      graph_.capture_end();
    } catch (...) {
      leave_pool();
      if (!error) error = std::current_exception();  // else it follows from the first
    }
    if (error) std::rethrow_exception(error);
    const std::uint64_t after = reserved_bytes(stream_.device_index());
    bytes_ = after > before ? after - before : 0;
  }

  void replay() override { graph_.replay(); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  void begin() {
    try {
      // Thread-local: other threads may meanwhile compute, on other streams, and allocate.
      graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      leave_pool();
      throw;
    }
  }

  // LibTorch leaves this undone when CUDA refuses a capture: the allocator would go on as if it
  // were under way, asking a graph that is gone and keeping freed memory to itself.
  void leave_pool() noexcept {
    const auto leave = [](const auto& step) {
      try {
        step();
      } catch (const std::exception&) {
        // It had come as far as that by itself.
      }
    };
    const auto device = stream_.device_index();
    leave([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool_); });
    leave([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool_); });
    leave([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_); });
    leave([&] { at::getHostAllocator(at::kCUDA)->release_pool(pool_); });
  }

  c10::cuda::CUDAStream stream_;
  const c10::MempoolId_t pool_;
  at::cuda::CUDAGraph graph_;
  std::uint64_t bytes_ = 0;
};

}  // namespace
}  // namespace coldframe

extern "C" coldframe::MakeGraph* coldframe_cuda_graphs() {
  const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
  return new coldframe::MakeGraph([pool] { return std::make_unique<coldframe::CudaGraph>(pool); });
}
