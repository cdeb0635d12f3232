// The processes of one job, each with a rank: sums in a fixed order, and news from rank 0.
//
// All goes through c10d's TCPStore, which rank 0 or torchrun keeps: LibTorch's wheel has no headers
// of its CPU backend, Gloo, whose sums come in an order that depends on the number of
// processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/processes/launch.h"
#include "common/processes/peer_watch.h"
#include "common/torch/tensor.h"

namespace coldframe {

class Nccl;

struct ProcessGroupOptions {
  std::chrono::seconds join{60};  // until all processes have come
  WatchOptions watch;
};

// When a process ends, hangs or reports an error, every call of the others throws a SystemError
// that says so; one that is kept from calling by something else ends by itself soon after. All
// processes make the same calls in the same order.
class ProcessGroup {
 public:
  // Waits until all processes of `launch` have come. SystemError when they do not.
  explicit ProcessGroup(const Launch& launch, const ProcessGroupOptions& options = {});
  ~ProcessGroup();  // without leave() the others learn that this process failed
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return launch_.rank; }
  int size() const { return launch_.size; }
  bool leads() const { return rank() == 0; }

  // result[i] = Σ parts: those of rank 0 one after another, then those of rank 1, …; the same bits
  // as one process that adds them all in this order. A rank may have none. `result` may be one of
  // the parts. All have the same size.
  void sum(std::span<const float* const> parts, std::span<float> result);
  void sum(std::span<const double* const> parts, std::span<double> result);
  // Sums in place, one part of each rank. The tensor is contiguous float32; on GPUs NCCL sums it
  // where it works.
  void sum(torch::Tensor tensor);
  void sum(std::span<double> values);
  double sum(double value);

  // Gives rank 0's value to all.
  void broadcast(torch::Tensor tensor);  // in place, contiguous
  std::string broadcast(const std::string& text);
  bool broadcast(bool value);

  // The job is done: from here on others may end. A later loss of one is no error.
  void leave();
  // Tells the others why this process ends.
  void fail(const std::string& reason);

 private:
  using Bytes = std::vector<std::uint8_t>;
  template <typename T>
  void sum_in_order(std::span<const T* const> parts, std::span<T> result);
  template <typename T>
  void sum_in_place(std::span<T> values);
  void broadcast_bytes(std::span<std::byte> bytes);
  void meet(const ProcessGroupOptions& options);
  std::string key(int rank, std::size_t piece) const;
  // One piece of this operation's data, by this rank for others, or by `rank`. SystemError when the
  // watch knows of a failure.
  void publish(std::size_t piece, const Bytes& bytes);
  Bytes fetch(int rank, std::size_t piece, std::size_t size);
  template <typename Call>
  void ask_store(const Call& call);

  Launch launch_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<PeerWatch> watch_;
  std::unique_ptr<Nccl> nccl_;
  bool nccl_tried_ = false;
  std::uint64_t operation_ = 0;
  // Keys of this rank: since the last sum began, and before that, which all have read.
  std::vector<std::string> published_, read_;
};

}  // namespace coldframe
