#include "extract/pipeline/transfer.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "common/cli/log.h"
#include "common/torch/device.h"

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
  void run(Stream, std::function<void()> work) override { work(); }
  void record(int event, Stream) override {
    events_.at(static_cast<std::size_t>(event)) = Clock::now();
  }
  void wait_for(Stream, int) override {}
  void synchronize(int) override {}
  double seconds_between(int from, int to) override {
    return std::chrono::duration<double>(events_.at(static_cast<std::size_t>(to)) -
                                         events_.at(static_cast<std::size_t>(from)))
        .count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Clock::time_point, kEvents> events_{};
};

// Through LibTorch's guards, which its CUDA half fills in when it is there.
class CudaStreams final : public Streams {
 public:
  explicit CudaStreams(const torch::Device& device)
      : device_(device), copying_(device), streams_{copying_.get(), compute_stream(device)} {
    for (int i = 0; i < kEvents; ++i)
      events_.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // these tell times
    // The weights: LibTorch casts them on its current stream, for which others do not wait.
    c10::Event loaded(device.type());
    loaded.record(guard().getStream(device));
    for (const c10::Stream& stream : streams_) loaded.block(stream);
  }

  bool asynchronous() const override { return true; }

  torch::Tensor device_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    const c10::StreamGuard current(of(Stream::kCompute));
    return torch::empty(sizes, torch::TensorOptions(device_).dtype(type));
  }

  torch::Tensor host_memory(torch::IntArrayRef sizes, torch::ScalarType type) override {
    const auto options = torch::TensorOptions(torch::kCPU).dtype(type);
    if (page_locked_) try {
        const c10::StreamGuard current(of(Stream::kCompute));
        return torch::empty(sizes, options.pinned_memory(true));
      } catch (const c10::Error&) {
        log_info("no page-locked memory is left: copies to the device will not overlap");
        page_locked_ = false;
      }
    return torch::empty(sizes, options);
  }

  void run(Stream stream, std::function<void()> work) override {
    const c10::StreamGuard current(of(stream));
    work();
  }
  void record(int event, Stream stream) override { at(event).record(of(stream)); }
  void wait_for(Stream stream, int event) override { at(event).block(of(stream)); }
  void synchronize(int event) override { at(event).synchronize(); }
  double seconds_between(int from, int to) override { return 1e-3 * at(from).elapsedTime(at(to)); }

 private:
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  const c10::Stream& of(Stream stream) const {
    return streams_.at(static_cast<std::size_t>(stream));
  }
  c10::Event& at(int event) { return events_.at(static_cast<std::size_t>(event)); }

  torch::Device device_;
  OwnStream copying_;
  std::array<c10::Stream, 2> streams_;
  std::vector<c10::Event> events_;
  bool page_locked_ = true;
};

}  // namespace

std::unique_ptr<Streams> make_streams(const torch::Device& device) {
  if (device.is_cuda()) return std::make_unique<CudaStreams>(device);
  return std::make_unique<CpuStreams>();
}

using Stream = Streams::Stream;

Staging::Staging(Streams& streams, InputShape shape, std::int64_t dimension, Forward forward)
    : streams_(streams),
      shape_(std::move(shape)),
      dimension_(dimension),
      forward_(std::move(forward)) {
  for (Slot& slot : slots_) slot.host = torch::empty(sizes_of(0), shape_.type);
}

std::vector<std::int64_t> Staging::sizes_of(std::int64_t count) const {
  std::vector<std::int64_t> sizes = shape_.sizes;
  sizes.insert(sizes.begin(), count);
  return sizes;
}

void Staging::reserve(int number, std::int64_t count) {
  Slot& slot = at(number);
  TORCH_INTERNAL_ASSERT(!slot.submitted);
  if (slot.host.size(0) >= count) return;
  const auto host = streams_.host_memory(sizes_of(count), shape_.type);
  slot.features = streams_.host_memory({count, dimension_}, torch::kFloat32);
  slot.host = host;
}

// Room on the device for a part of `count` frames. The copy stream must not write to it while the
// compute stream still works there: on the part before, or on what the memory belonged to.
void Staging::give_device_memory(Slot& slot, int number, std::int64_t count) {
  if (!slot.device.defined() || slot.device.size(0) < count) {
    slot.device = torch::Tensor();
    slot.device = streams_.device_memory(sizes_of(count), slot.host.scalar_type());
    streams_.record(finished(number), Stream::kCompute);
  }
  streams_.wait_for(Stream::kCopy, finished(number));
}

void Staging::submit(int number, std::int64_t begin, std::int64_t count) {
  Slot& slot = at(number);
  const torch::Tensor from = slot.host.narrow(0, begin, count);
  const torch::Tensor out = slot.features.narrow(0, begin, count);
  torch::Tensor to = from;
  if (streams_.asynchronous()) {
    give_device_memory(slot, number, count);
    to = slot.device.narrow(0, 0, count);
    streams_.run(Stream::kCopy, [from, to] { to.copy_(from, /*non_blocking=*/true); });
    streams_.record(copied(number), Stream::kCopy);
    streams_.wait_for(Stream::kCompute, copied(number));
  }
  if (!slot.submitted) streams_.record(started(number), Stream::kCompute);
  slot.submitted = true;
  streams_.run(Stream::kCompute, [this, to, out, number, begin] {
    const torch::InferenceMode guard;
    out.copy_(forward_(to, number, begin), /*non_blocking=*/true);
  });
  streams_.record(finished(number), Stream::kCompute);
}

const torch::Tensor& Staging::collect(int number) {
  Slot& slot = at(number);
  if (slot.submitted) {
    streams_.synchronize(copied(number));
    streams_.synchronize(finished(number));
  }
  slot.submitted = false;
  return slot.features;
}

}  // namespace coldframe::extract
