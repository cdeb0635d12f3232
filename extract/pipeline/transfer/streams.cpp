#include "extract/pipeline/transfer/streams.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "common/cli/log.h"

namespace coldframe::extract {
namespace {

class CpuStreams final : public Streams {
 public:
  bool asynchronous() const override { return false; }
  torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    return torch::empty(sizes, type);
  }
  torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    return torch::empty(sizes, type);
  }
  void run(Lane, std::function<void()> work) override { work(); }
  void set(int mark, Lane) override { marks_.at(static_cast<std::size_t>(mark)) = Clock::now(); }
  void hold(Lane, int) override {}
  void wait(int) override {}
  double seconds_between(int from, int to) override {
    return std::chrono::duration<double>(marks_.at(static_cast<std::size_t>(to)) -
                                         marks_.at(static_cast<std::size_t>(from)))
        .count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Clock::time_point, kMarks> marks_{};
};

// Through LibTorch's guards, which its CUDA half fills in when it is there.
class CudaStreams final : public Streams {
 public:
  explicit CudaStreams(const torch::Device& device)
      : device_(device),
        streams_{guard().getStreamFromGlobalPool(device), guard().getStreamFromGlobalPool(device)} {
    for (int i = 0; i < kMarks; ++i)
      marks_.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // these tell times
    // The weights: LibTorch casts them on its current stream, for which others do not wait.
    c10::Event loaded(device.type());
    loaded.record(guard().getStream(device));
    for (const c10::Stream& lane : streams_) loaded.block(lane);
  }

  bool asynchronous() const override { return true; }

  torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    const c10::StreamGuard current(stream(Lane::kCompute));
    return torch::empty(sizes, torch::TensorOptions(device_).dtype(type));
  }

  torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    const auto options = torch::TensorOptions(torch::kCPU).dtype(type);
    if (page_locked_) try {
        const c10::StreamGuard current(stream(Lane::kCompute));
        return torch::empty(sizes, options.pinned_memory(true));
      } catch (const c10::Error&) {
        log_info("no page-locked memory is left: copies to the device will not overlap");
        page_locked_ = false;
      }
    return torch::empty(sizes, options);
  }

  void run(Lane lane, std::function<void()> work) override {
    const c10::StreamGuard current(stream(lane));
    work();
  }
  void set(int mark, Lane lane) override { event(mark).record(stream(lane)); }
  void hold(Lane lane, int mark) override { event(mark).block(stream(lane)); }
  void wait(int mark) override { event(mark).synchronize(); }
  double seconds_between(int from, int to) override {
    return 1e-3 * event(from).elapsedTime(event(to));
  }

 private:
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  const c10::Stream& stream(Lane lane) const { return streams_.at(static_cast<std::size_t>(lane)); }
  c10::Event& event(int mark) { return marks_.at(static_cast<std::size_t>(mark)); }

  torch::Device device_;
  std::array<c10::Stream, 2> streams_;
  std::vector<c10::Event> marks_;
  bool page_locked_ = true;
};

}  // namespace

std::unique_ptr<Streams> make_streams(const torch::Device& device) {
  if (device.is_cuda()) return std::make_unique<CudaStreams>(device);
  return std::make_unique<CpuStreams>();
}

}  // namespace coldframe::extract
