// What the processor makes for a device goes there through pinned memory, so that nobody waits for
// the copy: copies from other memory wait for all that the device was given before. They have a
// stream of their own, so that the next batch is copied while the device computes this one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

torch::Tensor to_device(const torch::Tensor& made, const torch::Device& device);

// Tensors that one copy brings to a device.
class Parcel {
 public:
  // `to` becomes a tensor of these values and sizes; it must live until send().
  template <typename T>
  void add(std::span<const T> values, std::vector<std::int64_t> sizes, torch::Tensor& to) {
    const auto bytes = std::as_bytes(values);
    add({bytes.begin(), bytes.end()}, {}, c10::CppTypeToScalarType<T>::value, std::move(sizes), to);
  }
  void add(const torch::Tensor& values, torch::Tensor& to);  // contiguous, on the CPU
  // The tensors become views of `block`, uint8 on the device. One that is there, of a parcel of the
  // same sizes, is filled again.
  void send(const torch::Device& device, torch::Tensor& block) const;
  void send(const torch::Device& device) const {
    torch::Tensor block;
    send(device, block);
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  struct Slice {
    torch::Tensor* to;
    torch::ScalarType type;
    std::vector<std::int64_t> sizes;
    std::size_t begin, size;  // bytes
    // One of these has them.
    std::vector<std::byte> bytes;
    torch::Tensor tensor;
  };
  void add(std::vector<std::byte> bytes, torch::Tensor tensor, torch::ScalarType type,
           std::vector<std::int64_t> sizes, torch::Tensor& to);
  torch::Tensor packed(const torch::Device& device) const;

  std::vector<Slice> parts_;
  std::size_t size_ = 0;
};

}  // namespace coldframe
