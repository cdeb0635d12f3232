// Memory of devices: what is free, budgets for tensors, and traces of what a computation takes.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

// The memory of whichever device computes: a budget for its tensors, and the most that they took.

// Caps what tensors may take on the device that `word` (--device) will name; `bytes` = 0: no cap.
// Beyond it allocations throw c10::OutOfMemoryError. Call it before resolve_device(): LibTorch
// reads its allocator's settings once, as its CUDA half is opened, from PYTORCH_CUDA_ALLOC_CONF,
// which is set to allocator_settings(). On the CPU it is count_cpu_memory().
void budget_device_memory(const std::string& word, std::uint64_t bytes);
// The same for each of several devices. Those on the CPU share one budget.
void budget_device_memory(const std::vector<std::string>& words, std::uint64_t bytes);

// The user's settings stay as they are. Where there are none, segments grow, so that batches of
// rising sizes do not leave gaps. `share` of the device's memory is the cap, 1 and more: none.
std::string allocator_settings(const std::string& given, double share);

// cuBLAS computes in a workspace for each of its handles, one for each thread and stream, and
// cuBLASLt in another; LibTorch takes them from its allocator and keeps them. On Hopper and later
// they would be 32 MiB each, on others 8.1 in buffers of two sizes, with which results may differ
// from run to run. This sets two buffers of 4 MiB, with which they do not, unless the user set
// CUBLAS_WORKSPACE_CONFIG. It has to come before LibTorch opens its CUDA half. Sources: LibTorch
// 2.11, ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize(), setWorkspaceForHandle();
// cuBLAS's manual, "Results Reproducibility".
void bound_cuda_workspaces();
// Bytes of a workspace by that setting; nothing, or nonsense: LibTorch's own on Hopper.
std::uint64_t cuda_workspace(const char* setting);
// Bytes that training has in workspaces: its own thread and autograd's of the device have a handle
// each (torch/csrc/autograd/engine.cpp: a thread for each device).
std::uint64_t cuda_training_workspaces();

// Bytes that the budget leaves for tensors now; nothing where there is none, or on CUDA.
std::optional<std::uint64_t> device_memory_left(const torch::Device& device);

std::uint64_t live_device_memory(const torch::Device& device);  // bytes in tensors now
// Bytes that tensors can still take on a device, within `budget` (0: none).
std::uint64_t free_device_memory(const torch::Device& device, std::uint64_t budget);

std::uint64_t peak_device_memory(const torch::Device& device);  // bytes, since the last reset
void reset_device_memory_peak(const torch::Device& device);

// Gives what LibTorch keeps of freed tensors back to CUDA, where libraries and the driver, which
// allocate beside LibTorch, find it. Nothing on the CPU.
void release_device_memory(const torch::Device& device);

// Counts, and if asked caps, what LibTorch allocates for tensors on the CPU, oneDNN's buffers
// included: the CPU's counterpart of the CUDA caching allocator's statistics, so that budgets can
// be kept, and tested, without a GPU.

// Starts counting; a second call only changes the limit. An allocation that would take the sum of
// live bytes beyond `limit` throws c10::OutOfMemoryError, as CUDA's does; 0: no limit. Call it
// before threads compute. Tensors made before the first call are not counted.
void count_cpu_memory(std::uint64_t limit = 0);

struct CpuMemory {
  std::uint64_t live = 0;  // bytes in tensors now
  std::uint64_t peak = 0;  // the most since the start, or since reset_cpu_memory_peak()
  std::uint64_t limit = 0;
};
CpuMemory cpu_memory();  // zeros before count_cpu_memory()
void reset_cpu_memory_peak();

// Lets malloc keep large blocks that tensors give back, instead of returning them to the system,
// from where they come again page by page and zeroed: steps of a ViT-B took up to a third longer.
// Call it before there are threads that allocate.
void keep_freed_memory();

// While it lives, what this thread allocates may not exceed `limit` bytes, whatever others do: a
// part of the whole for each of several jobs side by side. 0: no limit of its own.
class CpuMemoryShare {
 public:
  explicit CpuMemoryShare(std::uint64_t limit);
  ~CpuMemoryShare();
  CpuMemoryShare(const CpuMemoryShare&) = delete;
  CpuMemoryShare& operator=(const CpuMemoryShare&) = delete;
};
// Bytes that the limit, and this thread's share, leave; nothing where there is neither.
std::optional<std::uint64_t> cpu_memory_left();
// To be called at the start of a thread that works for the calling one: it has the same share.
std::function<void()> join_cpu_memory_share();

// What something takes that runs on a device: bytes of tensors, allocation by allocation, and
// seconds.

// Follows, from its construction on, what the thread that made it takes and gives back on a device,
// and so do backward passes that it starts. Another one that is made meanwhile goes before it. The
// CPU's memory has to be counted by now (count_cpu_memory()).
class MemoryTrace {
 public:
  enum class Rises { kForgotten, kKept };
  explicit MemoryTrace(const torch::Device& device, Rises rises = Rises::kForgotten);

  // Bytes above those at the start; below 0 where more was given back than taken.
  std::int64_t live() const;
  std::int64_t peak() const;                // at least 0
  std::vector<std::int64_t> rises() const;  // live() after each allocation, if they are kept

 private:
  class Account;
  std::shared_ptr<Account> account_;
  c10::DebugInfoGuard follows_;
};

// Seconds since its construction. A GPU computes asynchronously: both ends wait for it.
class DeviceTimer {
 public:
  explicit DeviceTimer(const torch::Device& device);
  double seconds() const;

 private:
  void wait() const;

  torch::Device device_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace coldframe
