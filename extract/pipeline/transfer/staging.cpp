#include "extract/pipeline/transfer/staging.h"

namespace coldframe::extract {

using Stream = Streams::Stream;

Staging::Staging(Streams& streams, const ImageSize& image_size, std::int64_t dimension,
                 Forward forward)
    : streams_(streams),
      image_size_(image_size),
      dimension_(dimension),
      forward_(std::move(forward)) {
  for (Slot& slot : slots_)
    slot.host = torch::empty({0, image_size.height, image_size.width, 3}, torch::kUInt8);
}

void Staging::reserve(int number, std::int64_t count) {
  Slot& slot = at(number);
  TORCH_INTERNAL_ASSERT(!slot.submitted);
  if (slot.host.size(0) >= count) return;
  const auto host =
      streams_.host_memory({count, image_size_.height, image_size_.width, 3}, torch::kUInt8);
  slot.features = streams_.host_memory({count, dimension_}, torch::kFloat32);
  slot.host = host;
}

// Room on the device for a part of `count` frames. The copy stream must not write to it while the
// compute stream still works there: on the part before, or on what the memory belonged to.
void Staging::give_device_memory(Slot& slot, int number, std::int64_t count) {
  if (!slot.device.defined() || slot.device.size(0) < count) {
    slot.device = torch::Tensor();
    slot.device = streams_.device_memory({count, image_size_.height, image_size_.width, 3},
                                         slot.host.scalar_type());
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
  streams_.run(Stream::kCompute, [this, to, out] {
    const torch::InferenceMode guard;
    out.copy_(forward_(to), /*non_blocking=*/true);
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
