#include "common/torch/to_device.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>

#include "common/torch/device.h"

namespace coldframe {
namespace {

// For the copies of all threads, which follow each other anyway.
c10::Stream copy_stream(const torch::Device& device) {
  static LastingStream stream;
  return stream.of(device);
}

}  // namespace

torch::Tensor to_device(const torch::Tensor& made, const torch::Device& device) {
  if (!made.is_cpu() || !device.is_cuda()) return made.to(device);
  const c10::Stream computing = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  const c10::Stream copying = copy_stream(computing.device());
  torch::Tensor there;
  {
    const c10::StreamGuard guard(copying);
    const torch::Tensor from = made.is_pinned() ? made : made.pin_memory();
    there = from.to(from.options().device(device), /*non_blocking=*/true);
  }
  c10::Event copied(device.type());
  copied.record(copying);
  copied.block(computing);
  there.record_stream(computing);  // the copies' stream may not have its memory before that is done
  return there;
}

void Parcel::add(std::vector<std::byte> bytes, torch::Tensor tensor, torch::ScalarType type,
                 std::vector<std::int64_t> sizes, torch::Tensor& to) {
  const std::size_t size = tensor.defined() ? tensor.nbytes() : bytes.size();
  parts_.push_back({&to, type, std::move(sizes), size_, size, std::move(bytes), std::move(tensor)});
  size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
}

void Parcel::add(const torch::Tensor& values, torch::Tensor& to) {
  add({}, values, values.scalar_type(), values.sizes().vec(), to);
}

torch::Tensor Parcel::packed(const torch::Device& device) const {
  const auto options = torch::TensorOptions(torch::kUInt8).pinned_memory(device.is_cuda());
  torch::Tensor all = torch::empty({static_cast<std::int64_t>(size_)}, options);
  auto* const out = all.data_ptr<std::uint8_t>();
  for (const Slice& part : parts_) {
    const void* const from =
        part.tensor.defined() ? part.tensor.const_data_ptr() : part.bytes.data();
    if (part.size > 0) std::memcpy(out + part.begin, from, part.size);
  }
  return all;
}

void Parcel::send(const torch::Device& device, torch::Tensor& block) const {
  const torch::Tensor all = to_device(packed(device), device);
  if (block.defined())
    block.copy_(all);
  else
    block = all;
  for (const Slice& part : parts_) {
    *part.to =
        block.narrow(0, static_cast<std::int64_t>(part.begin), static_cast<std::int64_t>(part.size))
            .view(part.type)
            .view(part.sizes);
  }
}

}  // namespace coldframe
