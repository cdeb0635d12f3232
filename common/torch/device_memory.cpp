#include "common/torch/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <stdlib.h>

#include <algorithm>
#include <regex>

#include "common/system/cuda_driver.h"
#include "common/system/memory.h"
#include "common/text/text.h"
#include "common/torch/cpu_memory.h"

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

}  // namespace coldframe
