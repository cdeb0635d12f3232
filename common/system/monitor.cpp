#include "common/system/monitor.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/files/publish/atomic_file.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

constexpr std::string_view kHeader =
    "time_s,resident_bytes,available_bytes,cpu_percent,gpu_percent,gpu_memory_bytes\n";

// A full disk may have cut the last row off.
void drop_half_row(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.ends_with('\n')) return;
  std::error_code ignored;
  std::filesystem::resize_file(path, text.rfind('\n') + 1, ignored);
}

// Goes on with the table of an earlier start of the job.
void open_csv(const std::filesystem::path& path, Existing existing) {
  if (is_monitor_table(path)) return drop_half_row(path);
  write_file_atomically(path, kHeader, existing);
}

// The mean of their load and the sum of their memory; empty when none can be told.
std::optional<nvml::Usage> usage_of(const std::vector<std::string>& gpus) {
  nvml::Usage sum;
  int count = 0;
  for (const std::string& gpu : gpus) {
    const auto usage = nvml::usage(gpu);
    if (!usage) continue;
    sum.utilization += usage->utilization;
    sum.memory_bytes += usage->memory_bytes;
    ++count;
  }
  if (count == 0) return std::nullopt;
  sum.utilization /= count;
  return sum;
}

}  // namespace

bool is_monitor_table(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(kHeader.size(), '\0');
  return file.read(start.data(), static_cast<std::streamsize>(start.size())) && start == kHeader;
}

Json to_json(const ResourceSummary& summary) {
  Json json{{"seconds", json_number(summary.seconds)},
            {"peak_resident_bytes", summary.peak_resident},
            {"least_available_bytes", summary.min_available},
            {"mean_cpu_percent", json_number(summary.mean_cpu)}};
  if (summary.mean_gpu) json["mean_gpu_percent"] = json_number(*summary.mean_gpu);
  if (summary.peak_gpu_memory) json["peak_gpu_memory_bytes"] = *summary.peak_gpu_memory;
  return json;
}

std::string to_text(const ResourceSummary& summary) {
  std::string text = concat("CPU ", fixed(summary.mean_cpu, 0), " % of one core, memory at most ",
                            human_bytes(summary.peak_resident), ", ",
                            human_bytes(summary.min_available), " left on the machine");
  if (summary.mean_gpu) text += concat("; GPU ", fixed(*summary.mean_gpu, 0), " % busy");
  if (summary.peak_gpu_memory) text += concat(", ", human_bytes(*summary.peak_gpu_memory));
  return text;
}

Monitor::Monitor(MonitorOptions options)
    : options_(std::move(options)),
      started_(Clock::now()),
      last_(started_),
      last_cpu_s_(process_cpu_seconds()),
      first_cpu_s_(last_cpu_s_) {
  summary_.min_available = available_bytes();
  if (!options_.csv.empty()) open_csv(options_.csv, options_.existing);
  thread_ = start_thread([this] { run(); });
}

Monitor::~Monitor() {
  stop();
}

void Monitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ResourceSummary Monitor::finish() {
  const bool first = thread_.joinable();
  stop();
  if (first) sample();
  return summary_;
}

void Monitor::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.interval, [this] { return stopping_; })) sample();
}

void Monitor::sample() {
  const auto now = Clock::now();
  const double cpu_s = process_cpu_seconds();
  const double since_last = seconds_between(last_, now);
  const double cpu = since_last > 0 ? 100 * (cpu_s - last_cpu_s_) / since_last : 0;
  last_ = now;
  last_cpu_s_ = cpu_s;

  summary_.seconds = seconds_between(started_, now);
  if (summary_.seconds > 0) summary_.mean_cpu = 100 * (cpu_s - first_cpu_s_) / summary_.seconds;
  const std::uint64_t resident = resident_bytes(), available = available_bytes();
  summary_.peak_resident = std::max(summary_.peak_resident, resident);
  summary_.min_available = std::min(summary_.min_available, available);
  std::string gpu_fields = ",";
  if (const auto gpu = usage_of(options_.gpus)) {
    gpu_sum_ += gpu->utilization;
    summary_.mean_gpu = gpu_sum_ / static_cast<double>(++gpu_samples_);
    summary_.peak_gpu_memory = std::max(summary_.peak_gpu_memory.value_or(0), gpu->memory_bytes);
    gpu_fields = concat(fixed(gpu->utilization, 0), ',', gpu->memory_bytes);
  }
  if (options_.csv.empty()) return;
  std::ofstream row(options_.csv, std::ios::app);
  row << concat(fixed(summary_.seconds, 3), ',', resident, ',', available, ',', fixed(cpu, 1), ',',
                gpu_fields, '\n');
}

}  // namespace coldframe
