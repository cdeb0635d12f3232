// The memory of whichever device computes: a budget for its tensors, and the most that they took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe {

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

}  // namespace coldframe
