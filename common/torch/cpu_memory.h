// Counts, and if asked caps, what LibTorch allocates for tensors on the CPU, oneDNN's buffers
// included: the CPU's counterpart of the CUDA caching allocator's statistics, so that budgets can
// be kept, and tested, without a GPU.
#pragma once

#include <cstdint>

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

}  // namespace coldframe
