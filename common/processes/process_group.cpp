#include "common/processes/process_group.h"

#include <algorithm>
#include <cstring>

#include "common/processes/nccl.h"
#include "common/processes/peer_watch.h"
#include "common/processes/rendezvous.h"
#include "common/processes/ring.h"

namespace coldframe {

ProcessGroup::ProcessGroup(const Launch& launch, const ProcessGroupOptions& options)
    : launch_(launch) {
  Connections connections = connect_processes(launch, Deadline::clock::now() + options.join);
  watch_ = std::make_unique<PeerWatch>(launch.rank, std::move(connections.control),
                                       connections.names, options.beat, options.silence);
  ring_ = std::make_unique<Ring>(launch.rank, launch.size, std::move(connections.next),
                                 std::move(connections.previous), *watch_);
}

// The watch tells the others before the ring's connections close.
ProcessGroup::~ProcessGroup() {
  watch_.reset();
}

template <typename T>
void ProcessGroup::sum_in_order(std::span<const T* const> parts, std::span<T> result) {
  if (running_.size() < result.size_bytes()) running_.resize(result.size_bytes());
  const std::span<T> running(reinterpret_cast<T*>(running_.data()), result.size());
  const auto add_parts = [&](std::size_t from, std::size_t to, std::size_t first_part) {
    for (std::size_t part = first_part; part < parts.size(); ++part) {
      const T* values = parts[part];
      for (std::size_t i = from; i < to; ++i) running[i] += values[i];
    }
  };
  if (leads() && parts.empty()) std::fill(running.begin(), running.end(), T(0));
  if (leads() && !parts.empty()) {
    std::copy_n(parts.front(), running.size(), running.begin());
    add_parts(0, running.size(), 1);
  }
  ring_->chain(
      std::as_writable_bytes(running), std::as_writable_bytes(result), sizeof(T),
      [&](std::size_t from, std::size_t to) { add_parts(from / sizeof(T), to / sizeof(T), 0); });
}

void ProcessGroup::sum(std::span<const float* const> parts, std::span<float> result) {
  sum_in_order(parts, result);
}

void ProcessGroup::sum(std::span<const double* const> parts, std::span<double> result) {
  sum_in_order(parts, result);
}

template <typename T>
void ProcessGroup::sum_in_place(std::span<T> values) {
  const T* const part = values.data();
  sum_in_order<T>({&part, 1}, values);
}

void ProcessGroup::sum(std::span<double> values) {
  sum_in_place(values);
}

double ProcessGroup::sum(double value) {
  sum_in_place(std::span(&value, 1));
  return value;
}

void ProcessGroup::sum(torch::Tensor tensor) {
  torch::NoGradGuard no_grad;
  if (tensor.is_cuda() && !nccl_tried_) {
    nccl_tried_ = true;
    nccl_ = Nccl::join(*this, tensor.device());
  }
  if (tensor.is_cuda() && nccl_) return nccl_->sum(tensor);
  torch::Tensor values = tensor.cpu();
  sum_in_place(std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
  if (!tensor.is_cpu()) tensor.copy_(values);
}

void ProcessGroup::broadcast_bytes(std::span<std::byte> bytes) {
  ring_->broadcast(bytes);
}

void ProcessGroup::broadcast(torch::Tensor tensor) {
  torch::NoGradGuard no_grad;
  torch::Tensor values = tensor.cpu();
  broadcast_bytes({static_cast<std::byte*>(values.data_ptr()), values.nbytes()});
  if (!tensor.is_cpu()) tensor.copy_(values);
}

std::string ProcessGroup::broadcast(const std::string& text) {
  std::uint64_t length = text.size();
  broadcast_bytes(std::as_writable_bytes(std::span(&length, 1)));
  std::string result = text;
  result.resize(length);
  broadcast_bytes(std::as_writable_bytes(std::span(result)));
  return result;
}

bool ProcessGroup::broadcast(bool value) {
  char byte = value ? 1 : 0;
  broadcast_bytes(std::as_writable_bytes(std::span(&byte, 1)));
  return byte != 0;
}

void ProcessGroup::leave() {
  watch_->leave();
}

void ProcessGroup::fail(const std::string& reason) {
  watch_->tell(reason);
}

}  // namespace coldframe
