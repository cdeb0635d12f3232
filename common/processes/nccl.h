// Sums over GPUs by NCCL, opened at run time: programs start without it, and no CUDA toolkit is
// needed to build them. It is the library that LibTorch's CUDA half brings along.
#pragma once

#include <memory>
#include <string>

#include "common/torch/tensor.h"

namespace coldframe {

class ProcessGroup;

class Nccl {
 public:
  // Null when the GPUs cannot be joined (no NCCL, or two processes on one GPU), on all ranks alike;
  // rank 0 says why. All processes call it, each with its own GPU.
  static std::unique_ptr<Nccl> join(ProcessGroup& group, const torch::Device& device);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // In place, contiguous float32, on the current stream. The order of the sum is NCCL's: fixed for
  // a number of processes, but not that of their ranks.
  void sum(torch::Tensor tensor);

 private:
  struct Functions;
  static std::string load(Functions& functions);
  Nccl() = default;
  std::string connect(ProcessGroup& group, const torch::Device& device);

  std::unique_ptr<Functions> functions_;
  void* communicator_ = nullptr;
};

}  // namespace coldframe
