// The contents of libcoldframe_nccl.so.
#include <stdlib.h>

#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "common/processes/nccl.h"

namespace coldframe {
namespace {

class NcclGroup final : public Nccl {
 public:
  NcclGroup(const StorePointer& store, int rank, int size) {
    // Its monitor would end a process that waits long. PeerWatch knows which have died.
    ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", /*overwrite=*/0);
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::hours(24 * 30);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  }
  ~NcclGroup() override { group_->abort(); }

  void sum(torch::Tensor tensor) override {
    std::vector<torch::Tensor> tensors{std::move(tensor)};
    group_->allreduce(tensors)->wait();  // the current stream waits, not this thread
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace
}  // namespace coldframe

extern "C" coldframe::Nccl* coldframe_make_nccl(const coldframe::Nccl::StorePointer& store,
                                                int rank, int size) {
  // Their classes hold structures of nccl.h, whose size depends on its version.
  constexpr std::uint64_t kBuiltFor =
      std::uint64_t{NCCL_MAJOR} << 32 | std::uint64_t{NCCL_MINOR} << 16 | NCCL_PATCH;
  TORCH_CHECK(torch::cuda::nccl::version() == kBuiltFor,
              "this build's nccl.h is not of the version that LibTorch was built for");
  return new coldframe::NcclGroup(store, rank, size);
}
