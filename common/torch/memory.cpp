#include "common/torch/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>
#include <stdlib.h>
#include <torch/cuda.h>
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <regex>

#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

// LibTorch reads the first that is set.
constexpr const char *kCudaSettings = "PYTORCH_CUDA_ALLOC_CONF", *kSettings = "PYTORCH_ALLOC_CONF";

// Memory of the device that "auto", "cuda" or "cuda:N" names; 0 where there is none, which
// resolve_device then reports.
std::uint64_t cuda_memory(const std::string& word) {
  std::int64_t index = 0;
  if (word.starts_with("cuda:") && !parse_int(word.substr(5), index)) return 0;
  const bool there = index >= 0 && index < cuda_driver::device_count();
  return there ? cuda_driver::total_memory(static_cast<int>(index)) : 0;
}

void budget_cuda(const std::string& word, std::uint64_t bytes) {
  const char* given = ::getenv(kCudaSettings);
  if (!given) given = ::getenv(kSettings);
  const double share =
      bytes == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(cuda_memory(word));
  ::setenv(kCudaSettings, allocator_settings(given ? given : "", share).c_str(), 1);
}

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// Of the allocator of a device that resolve_device() gave.
auto stats_of(const torch::Device& device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

// Two buffers of 4 MiB.
constexpr char kWorkspaces[] = "CUBLAS_WORKSPACE_CONFIG", kBoundedWorkspaces[] = ":4096:2";
constexpr std::uint64_t kHopperWorkspace = 32u << 20;
constexpr char kLtWorkspace[] = "CUBLASLT_WORKSPACE_SIZE";  // in KiB

std::uint64_t lt_workspace() {
  const char* const set = ::getenv(kLtWorkspace);
  std::int64_t kibibytes = 0;
  const bool given = set && parse_int(set, kibibytes) && kibibytes >= 0 && kibibytes < 1 << 30;
  return 1024 * static_cast<std::uint64_t>(given ? kibibytes : 1024);
}

}  // namespace

void bound_cuda_workspaces() {
  ::setenv(kWorkspaces, kBoundedWorkspaces, /*overwrite=*/0);
}

std::uint64_t cuda_workspace(const char* setting) {
  if (setting == nullptr) return kHopperWorkspace;
  static const std::regex each(":([0-9]{1,7}):([0-9]{1,7})");
  const std::string text = setting;
  std::uint64_t bytes = 0;
  bool found = false;
  for (std::sregex_iterator pair(text.begin(), text.end(), each), end; pair != end; ++pair) {
    bytes += 1024 * std::stoull((*pair)[1].str()) * std::stoull((*pair)[2].str());
    found = true;
  }
  return found ? bytes : kHopperWorkspace;
}

std::uint64_t cuda_training_workspaces() {
  const char* const set = ::getenv(kWorkspaces);
  return 2 * (cuda_workspace(set ? set : kBoundedWorkspaces) + lt_workspace());
}

std::string allocator_settings(const std::string& given, double share) {
  std::vector<std::string> settings;
  settings.push_back(given.empty() ? "expandable_segments:True" : given);
  if (share < 1 && given.find("per_process_memory_fraction") == std::string::npos)
    settings.push_back("per_process_memory_fraction:" + fixed(share, 6));
  return join(settings, ",");
}

// Without a budget the driver is not asked, since it takes its time to start.
void budget_device_memory(const std::string& word, std::uint64_t bytes) {
  const bool cuda = word != "cpu" && (bytes == 0 || cuda_memory(word) > 0);
  count_cpu_memory(cuda ? 0 : bytes);
  if (cuda) budget_cuda(word, bytes);
}

std::optional<std::uint64_t> device_memory_left(const torch::Device& device) {
  return device.is_cpu() ? cpu_memory_left() : std::nullopt;
}

// CUDA's share is one number for all devices: none exceeds its budget if the largest does not.
void budget_device_memory(const std::vector<std::string>& words, std::uint64_t bytes) {
  const auto memory = [&](const std::string& word) {
    return word == "cpu" ? 0 : bytes == 0 ? 1 : cuda_memory(word);
  };
  const auto largest = std::ranges::max_element(words, {}, memory);
  if (largest != words.end()) budget_device_memory(*largest, bytes);
}

std::uint64_t live_device_memory(const torch::Device& device) {
  if (!device.is_cuda()) return cpu_memory().live;
  return static_cast<std::uint64_t>(stats_of(device).allocated_bytes[kAll].current);
}

// Memory of freed tensors that LibTorch keeps is free for others.
std::uint64_t free_device_memory(const torch::Device& device, std::uint64_t budget) {
  if (device.is_cpu())
    return std::min<std::uint64_t>(cpu_memory_left().value_or(UINT64_MAX), available_bytes());
  const auto stats = stats_of(device);
  const auto taken = static_cast<std::uint64_t>(stats.allocated_bytes[kAll].current);
  const auto kept = static_cast<std::uint64_t>(stats.reserved_bytes[kAll].current) - taken;
  const std::uint64_t free =
      c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first + kept;
  return budget == 0 ? free : std::min(free, budget - std::min(budget, taken));
}

std::uint64_t peak_device_memory(const torch::Device& device) {
  if (!device.is_cuda()) return cpu_memory().peak;
  return static_cast<std::uint64_t>(stats_of(device).allocated_bytes[kAll].peak);
}

void reset_device_memory_peak(const torch::Device& device) {
  if (device.is_cuda())
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  else
    reset_cpu_memory_peak();
}

void release_device_memory(const torch::Device& device) {
  if (device.is_cuda()) c10::getDeviceAllocator(device.type())->emptyCache();
}

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

// LibTorch's allocators tell the thread's profiler what they give and get, the counting one too.
// On a GPU a backward pass runs on a thread of its own, which inherits the profiler.
class MemoryTrace::Account : public c10::MemoryReportingInfoBase {
 public:
  Account(const torch::Device& device, bool keeps_rises)
      : type_(device.type()), keeps_rises_(keeps_rises) {}

  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device device) override {
    if (device.type() != type_) return;
    const std::lock_guard lock(mutex_);
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    if (bytes > 0 && keeps_rises_) rises_.push_back(live_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  std::vector<std::int64_t> rises() const {
    const std::lock_guard lock(mutex_);
    return rises_;
  }

 private:
  c10::DeviceType type_;
  bool keeps_rises_;
  mutable std::mutex mutex_;
  std::int64_t live_ = 0, peak_ = 0;
  std::vector<std::int64_t> rises_;
};

MemoryTrace::MemoryTrace(const torch::Device& device, Rises rises)
    : account_(std::make_shared<Account>(device, rises == Rises::kKept)),
      follows_(c10::DebugInfoKind::PROFILER_STATE, account_) {}

std::int64_t MemoryTrace::live() const {
  return account_->live();
}

std::int64_t MemoryTrace::peak() const {
  return account_->peak();
}

std::vector<std::int64_t> MemoryTrace::rises() const {
  return account_->rises();
}

DeviceTimer::DeviceTimer(const torch::Device& device) : device_(device) {
  wait();
  start_ = std::chrono::steady_clock::now();
}

double DeviceTimer::seconds() const {
  wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void DeviceTimer::wait() const {
  if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
}

}  // namespace coldframe
