#include "common/processes/nccl.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/cli/log.h"
#include "common/processes/process_group.h"
#include "common/system/library.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"

namespace coldframe {
namespace {

// Makes NCCL and tries one sum, which is when it connects. Null when that fails, with `problem`
// saying why.
std::unique_ptr<Nccl> try_nccl(Nccl::Make make, const Nccl::StorePointer& store,
                               const ProcessGroup& group, const torch::Device& device,
                               std::string& problem) {
  try {
    std::unique_ptr<Nccl> nccl(make(store, group.rank(), group.size()));
    const torch::Tensor one = torch::ones({1}, device);
    nccl->sum(one);
    if (one.item<float>() == static_cast<float>(group.size())) return nccl;
    problem = "NCCL's sum is wrong";
  } catch (const std::exception& error) {
    problem = first_line(error);
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Nccl> Nccl::join(ProcessGroup& group, const StorePointer& store,
                                 const torch::Device& device) {
  std::string problem;
  const auto make = reinterpret_cast<Make>(
      find_in_library("libcoldframe_nccl.so", "coldframe_make_nccl", problem));
  std::unique_ptr<Nccl> nccl;
  if (group.sum(make ? 0.0 : 1.0) == 0) nccl = try_nccl(make, store, group, device, problem);
  if (group.sum(nccl ? 0.0 : 1.0) == 0) return nccl;
  log_warning(concat("gradients are summed over the CPU: ",
                     nccl || problem.empty() ? "another process could not join its GPU" : problem));
  return nullptr;
}

}  // namespace coldframe
