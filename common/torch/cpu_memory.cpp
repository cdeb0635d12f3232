#include "common/torch/cpu_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>

#include "common/text.h"

namespace coldframe {
namespace {

std::atomic<std::uint64_t> live_bytes{0}, peak_bytes{0}, limit_bytes{0};

// Before each block lies its size; 64 bytes, so that tensors keep c10's alignment.
constexpr std::size_t kHeader = 64;

void note_peak(std::uint64_t live) {
  std::uint64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

// Takes `bytes` from the limit, or throws and takes nothing.
void reserve(std::uint64_t bytes) {
  const std::uint64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const std::uint64_t limit = limit_bytes.load(std::memory_order_relaxed);
  if (limit == 0 || live <= limit) return note_peak(live);
  live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory: ", human_bytes(bytes),
                   " more do not fit a limit of ", human_bytes(limit), ", of which ",
                   human_bytes(live - bytes), " are taken");
}

void release(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kHeader;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof bytes);
  live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
  c10::free_cpu(block);
}

void* take(std::size_t bytes) {
  reserve(bytes);
  char* block = nullptr;
  try {
    block = static_cast<char*>(c10::alloc_cpu(bytes + kHeader));
  } catch (const c10::Error&) {
    live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "the machine has no ", human_bytes(bytes),
                     " of memory left");
  }
  const std::uint64_t counted = bytes;
  std::memcpy(block, &counted, sizeof counted);
  return block + kHeader;
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }
};

}  // namespace

void count_cpu_memory(std::uint64_t limit) {
  static CountingAllocator allocator;  // outlives every tensor: it has nothing to destroy
  limit_bytes = limit;
  if (c10::GetCPUAllocator() != &allocator) c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

CpuMemory cpu_memory() {
  return {live_bytes.load(), peak_bytes.load(), limit_bytes.load()};
}

void reset_cpu_memory_peak() {
  peak_bytes = live_bytes.load();
}

}  // namespace coldframe
