#include "extract/transfer/staging.h"

namespace coldframe {

using Lane = Streams::Lane;

Staging::Staging(Streams& streams, std::int64_t image_size, std::int64_t dimension, Forward forward)
    : streams_(streams),
      image_size_(image_size),
      dimension_(dimension),
      forward_(std::move(forward)) {
  for (Slot& slot : slots_) slot.host = torch::empty({0, image_size, image_size, 3}, torch::kUInt8);
}

void Staging::reserve(int number, std::int64_t count) {
  Slot& slot = at(number);
  TORCH_INTERNAL_ASSERT(!slot.submitted);
  if (slot.host.size(0) >= count) return;
  slot.device = torch::Tensor();
  const auto host = streams_.host_memory({count, image_size_, image_size_, 3}, torch::kUInt8);
  slot.features = streams_.host_memory({count, dimension_}, torch::kFloat32);
  slot.host = host;
}

// Memory that the compute lane's earlier work has given back may still be in use by that work: the
// copy lane must not write to it before.
void Staging::give_device_memory(int number) {
  Slot& slot = at(number);
  if (slot.device.defined()) return;
  if (!streams_.asynchronous()) {
    slot.device = slot.host;
    return;
  }
  slot.device = streams_.device_memory(slot.host.sizes(), torch::kUInt8);
  streams_.set(finished(number), Lane::kCompute);
  streams_.hold(Lane::kCopy, finished(number));
}

void Staging::submit(int number, std::int64_t begin, std::int64_t count) {
  Slot& slot = at(number);
  give_device_memory(number);
  const torch::Tensor to = slot.device.narrow(0, begin, count);
  const torch::Tensor out = slot.features.narrow(0, begin, count);
  if (streams_.asynchronous()) {
    const torch::Tensor from = slot.host.narrow(0, begin, count);
    streams_.run(Lane::kCopy, [from, to] { to.copy_(from, /*non_blocking=*/true); });
    streams_.set(copied(number), Lane::kCopy);
    streams_.hold(Lane::kCompute, copied(number));
  }
  if (!slot.submitted) streams_.set(started(number), Lane::kCompute);
  slot.submitted = true;
  streams_.run(Lane::kCompute, [this, to, out] {
    const torch::InferenceMode guard;
    out.copy_(forward_(to), /*non_blocking=*/true);
  });
  streams_.set(finished(number), Lane::kCompute);
}

const torch::Tensor& Staging::collect(int number) {
  Slot& slot = at(number);
  if (slot.submitted) {
    streams_.wait(copied(number));
    streams_.wait(finished(number));
  }
  slot.submitted = false;
  return slot.features;
}

}  // namespace coldframe
