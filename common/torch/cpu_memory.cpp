#include "common/torch/cpu_memory.h"

#include <malloc.h>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#include "common/text/text.h"

namespace coldframe {
namespace {

std::atomic<std::uint64_t> live_bytes{0}, peak_bytes{0}, limit_bytes{0};

// An account of what a share has taken. Blocks may outlive the share, so it is never destroyed.
struct Account {
  std::atomic<std::uint64_t> live{0};
  std::uint64_t limit = 0;
};
thread_local Account* own_account = nullptr;

// Lies before each block; 64 bytes, so that tensors keep c10's alignment.
constexpr std::size_t kBlockHeader = 64;
struct Header {
  std::uint64_t bytes;
  Account* account;
};

void give_back(const Header& header) {
  live_bytes.fetch_sub(header.bytes, std::memory_order_relaxed);
  if (header.account) header.account->live.fetch_sub(header.bytes, std::memory_order_relaxed);
}

[[noreturn]] void refuse(std::uint64_t bytes, std::uint64_t limit, std::uint64_t taken) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CPU out of memory: ", human_bytes(bytes),
                   " more do not fit a limit of ", human_bytes(limit), ", of which ",
                   human_bytes(taken), " are taken");
  __builtin_unreachable();
}

void note_peak(std::uint64_t live) {
  std::uint64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

// Takes `bytes` from the limits, or throws and takes nothing.
void reserve(std::uint64_t bytes, Account* account) {
  if (account) {
    const std::uint64_t own = account->live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (own > account->limit) {
      account->live.fetch_sub(bytes, std::memory_order_relaxed);
      refuse(bytes, account->limit, own - bytes);
    }
  }
  const std::uint64_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const std::uint64_t limit = limit_bytes.load(std::memory_order_relaxed);
  if (limit == 0 || live <= limit) return note_peak(live);
  give_back({bytes, account});
  refuse(bytes, limit, live - bytes);
}

// To who follows this thread's memory (memory_trace.h).
void tell(void* data, std::int64_t bytes) {
  c10::reportMemoryUsageToProfiler(data, bytes, live_bytes, 0, c10::DeviceType::CPU);
}

void release(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kBlockHeader;
  Header header;
  std::memcpy(&header, block, sizeof header);
  give_back(header);
  tell(data, -static_cast<std::int64_t>(header.bytes));
  c10::free_cpu(block);
}

void* take(std::size_t bytes) {
  const Header header{bytes, own_account};
  reserve(bytes, header.account);
  char* block = nullptr;
  try {
    block = static_cast<char*>(c10::alloc_cpu(bytes + kBlockHeader));
  } catch (const c10::Error&) {
    give_back(header);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "the machine has no ", human_bytes(bytes),
                     " of memory left");
  }
  std::memcpy(block, &header, sizeof header);
  tell(block + kBlockHeader, static_cast<std::int64_t>(bytes));
  return block + kBlockHeader;
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

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
  ::mallopt(M_ARENA_MAX, 1);        // those of other threads give back all the same
}

CpuMemory cpu_memory() {
  return {live_bytes.load(), peak_bytes.load(), limit_bytes.load()};
}

CpuMemoryShare::CpuMemoryShare(std::uint64_t limit) {
  if (limit == 0) return;
  static std::mutex mutex;
  static auto* accounts = new std::deque<Account>;  // a few per run
  const std::lock_guard lock(mutex);
  own_account = &accounts->emplace_back();
  own_account->limit = limit;
}

CpuMemoryShare::~CpuMemoryShare() {
  own_account = nullptr;
}

std::optional<std::uint64_t> cpu_memory_left() {
  const auto left = [](std::uint64_t limit, std::uint64_t live) {
    return limit - std::min(live, limit);
  };
  std::optional<std::uint64_t> result;
  if (limit_bytes > 0) result = left(limit_bytes, live_bytes);
  if (own_account == nullptr) return result;
  const std::uint64_t own = left(own_account->limit, own_account->live);
  return result ? std::min(*result, own) : own;
}

std::function<void()> join_cpu_memory_share() {
  return [account = own_account] { own_account = account; };
}

void reset_cpu_memory_peak() {
  peak_bytes = live_bytes.load();
}

}  // namespace coldframe
