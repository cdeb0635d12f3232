// Sums over GPUs by c10d's ProcessGroupNCCL, in a library of its own that is opened at run time:
// programs start without CUDA's libraries, and are built without its compiler.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "common/torch/tensor.h"

namespace c10d {
class Store;
}

namespace coldframe {

class ProcessGroup;

class Nccl {
 public:
  using StorePointer = c10::intrusive_ptr<c10d::Store>;
  // coldframe_make_nccl() of libcoldframe_nccl.so (nccl_cuda.cpp). Throws where NCCL does not
  // start.
  using Make = Nccl* (*)(const StorePointer& store, int rank, int size);

  // Null when the GPUs cannot be joined (no NCCL, or two processes on one GPU), on all ranks alike;
  // rank 0 says why. All processes call it, each with its own GPU and connection to the store.
  static std::unique_ptr<Nccl> join(ProcessGroup& group, const StorePointer& store,
                                    const torch::Device& device);
  virtual ~Nccl() = default;

  // Sums contiguous float32 in place, on the current stream. The order of the sum is NCCL's: fixed
  // for a number of processes, but not that of their ranks.
  virtual void sum(torch::Tensor tensor) = 0;
};

}  // namespace coldframe
