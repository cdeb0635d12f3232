#include "common/processes/nccl.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstring>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/processes/process_group.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

// Of nccl.h (NVIDIA NCCL 2, whose ABI these belong to).
struct UniqueId {
  char bytes[128];
};
constexpr int kSuccess = 0, kFloat32 = 7, kSum = 0;

void* current_stream(const torch::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStream(device).native_handle();
}

}  // namespace

struct Nccl::Functions {
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(void** communicator, int size, UniqueId id, int rank);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int operation,
                    void* communicator, void* stream);
  int (*abort)(void* communicator);
  const char* (*error_string)(int result);
};

// "" or why not.
std::string Nccl::load(Functions& functions) {
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return concat("NCCL does not load: ", ::dlerror());
  const auto find = [&](auto& function, const char* name) {
    void* symbol = ::dlsym(library, name);
    std::memcpy(&function, &symbol, sizeof symbol);
    return symbol != nullptr;
  };
  const bool all = find(functions.get_unique_id, "ncclGetUniqueId") &&
                   find(functions.init_rank, "ncclCommInitRank") &&
                   find(functions.all_reduce, "ncclAllReduce") &&
                   find(functions.abort, "ncclCommAbort") &&
                   find(functions.error_string, "ncclGetErrorString");
  return all ? "" : "libnccl.so.2 lacks a function of NCCL 2";
}

std::unique_ptr<Nccl> Nccl::join(ProcessGroup& group, const torch::Device& device) {
  std::unique_ptr<Nccl> nccl(new Nccl);
  nccl->functions_ = std::make_unique<Functions>();
  std::string problem = load(*nccl->functions_);
  if (group.sum(problem.empty() ? 0.0 : 1.0) == 0) problem = nccl->connect(group, device);
  if (group.sum(problem.empty() ? 0.0 : 1.0) == 0) return nccl;
  log_warning(concat("gradients are summed over the CPU: ",
                     problem.empty() ? "another process could not join its GPU" : problem));
  return nullptr;
}

std::string Nccl::connect(ProcessGroup& group, const torch::Device& device) {
  UniqueId id{};
  int result = group.leads() ? functions_->get_unique_id(&id) : kSuccess;
  std::string bytes(id.bytes, sizeof id.bytes);
  bytes = group.broadcast(result == kSuccess ? bytes : std::string());
  if (bytes.size() != sizeof id.bytes) return "NCCL does not start on rank 0";
  std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
  const c10::DeviceGuard guard(device);
  result = functions_->init_rank(&communicator_, group.size(), id, group.rank());
  return result == kSuccess ? "" : concat("NCCL: ", functions_->error_string(result));
}

Nccl::~Nccl() {
  if (communicator_ != nullptr) functions_->abort(communicator_);
}

void Nccl::sum(torch::Tensor tensor) {
  const c10::DeviceGuard guard(tensor.device());
  const int result = functions_->all_reduce(tensor.data_ptr(), tensor.data_ptr(),
                                            static_cast<std::size_t>(tensor.numel()), kFloat32,
                                            kSum, communicator_, current_stream(tensor.device()));
  if (result != kSuccess) {
    throw SystemError(concat("NCCL: ", functions_->error_string(result),
                             "; start the job again, with --resume, to continue"));
  }
}

}  // namespace coldframe
