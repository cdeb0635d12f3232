// libcoldframe_cuda_graphs.so: the one piece that needs LibTorch's CUDA half at link time. Opened
// at run time by graphs.cpp, after that half has been (common/torch/device.cpp).
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>

#include "extract/vit/gpu/graphs.h"

namespace coldframe::vit::gpu {
namespace {

std::uint64_t reserved_bytes(c10::DeviceIndex device) {
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device);
  return static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current);
}

class CudaGraph final : public Graph {
 public:
  CudaGraph() : stream_(c10::cuda::getCurrentCUDAStream()) {}
  ~CudaGraph() override {
    try {
      stream_.synchronize();  // a replay may be under way
      graph_.reset();
    } catch (const std::exception&) {
      // What went wrong on the device is told by the next call that waits for it.
    }
  }

  void capture(const std::function<void()>& work) override {
    const std::uint64_t before = reserved_bytes(stream_.device_index());
    // Thread-local: other threads may meanwhile compute on other devices and allocate.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      try {
        graph_.capture_end();
      } catch (const std::exception&) {
        // It follows from the first error, which is the one to tell.
      }
      std::rethrow_exception(error);
    }
    graph_.capture_end();
    const std::uint64_t after = reserved_bytes(stream_.device_index());
    bytes_ = after > before ? after - before : 0;
  }

  void replay() override { graph_.replay(); }
  std::uint64_t bytes() const override { return bytes_; }

 private:
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAGraph graph_;
  std::uint64_t bytes_ = 0;
};

}  // namespace
}  // namespace coldframe::vit::gpu

extern "C" coldframe::vit::gpu::Graph* coldframe_make_cuda_graph() {
  return new coldframe::vit::gpu::CudaGraph();
}
