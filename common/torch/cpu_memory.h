// Counts, and if asked caps, what LibTorch allocates for tensors on the CPU, oneDNN's buffers
// included: the CPU's counterpart of the CUDA caching allocator's statistics, so that budgets can
// be kept, and tested, without a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace coldframe {

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

}  // namespace coldframe
