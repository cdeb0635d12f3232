// What the processor makes for a device goes there through pinned memory, so that nobody waits for
// the copy: copies from other memory wait for all that the device was given before.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

inline torch::Tensor to_device(const torch::Tensor& made, const torch::Device& device) {
  if (!made.is_cpu()) return made.to(device);
  const torch::Tensor from = device.is_cuda() ? made.pin_memory() : made;
  return from.to(from.options().device(device), /*non_blocking=*/true);
}

// Tensors that one copy brings to a device.
class Parcel {
 public:
  // `to` becomes a tensor of these values and sizes; it must live until send().
  template <typename T>
  void add(std::span<const T> values, std::vector<std::int64_t> sizes, torch::Tensor& to) {
    const auto from = std::as_bytes(values);
    parts_.push_back({&to, c10::CppTypeToScalarType<T>::value, std::move(sizes), bytes_.size()});
    bytes_.insert(bytes_.end(), from.begin(), from.end());
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  void send(const torch::Device& device);

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Part {
    torch::Tensor* to;
    torch::ScalarType type;
    std::vector<std::int64_t> sizes;
    std::size_t begin;
  };
  std::vector<Part> parts_;
  std::vector<std::byte> bytes_;
};

}  // namespace coldframe
