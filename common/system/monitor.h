// Watches what a long job takes of the machine, from a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/files/json.h"
#include "common/files/publish/publish.h"

namespace coldframe {

// CPU in percent of one core, GPU in percent of the device.
struct ResourceSummary {
  double seconds = 0;
  std::uint64_t peak_resident = 0;  // bytes
  std::uint64_t min_available = 0;
  double mean_cpu = 0;
  std::optional<double> mean_gpu;
  std::optional<std::uint64_t> peak_gpu_memory;  // bytes
};
Json to_json(const ResourceSummary& summary);
std::string to_text(const ResourceSummary& summary);  // one line

struct MonitorOptions {
  std::filesystem::path csv;      // a row per sample; empty: none
  std::vector<std::string> gpus;  // each as nvml::usage() takes it
  std::chrono::milliseconds interval{1000};
  Existing existing = Existing::kKeep;  // what becomes of a file that is there and no such table
};
// The table of an earlier job, to which rows may be added.
bool is_monitor_table(const std::filesystem::path& path);

// Samples from construction until finish() or destruction. The CSV has the columns time_s,
// resident_bytes, available_bytes, cpu_percent, gpu_percent, gpu_memory_bytes (the last two empty
// without a GPU; of several, the mean of their load and the sum of their memory); it is appended to
// as the job runs, so that a killed one leaves its rows, and one that was begun before is gone on
// with: time_s starts anew then. SystemError when the CSV cannot be created, or is another file.
class Monitor {
 public:
  explicit Monitor(MonitorOptions options);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  ResourceSummary finish();  // takes a last sample; later calls give the same

 private:
  void run();
  void sample();
  void stop();

  MonitorOptions options_;
  ResourceSummary summary_;
  std::chrono::steady_clock::time_point started_, last_;
  double last_cpu_s_ = 0, first_cpu_s_ = 0, gpu_sum_ = 0;
  std::size_t gpu_samples_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::jthread thread_;
};

// How long the stages of a job's start and its end take.

// Seconds by the stage's name in the summary. Stages may run side by side, on several threads, and
// more than once: then they add up.
class StageTimes {
 public:
  void add(const std::string& stage, double seconds) {
    const std::lock_guard lock(mutex_);
    seconds_[stage] += seconds;
  }
  std::map<std::string, double> seconds() const {
    const std::lock_guard lock(mutex_);
    return seconds_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> seconds_;
};

// Adds the time from here to the end of its block, if `times` are wanted.
class StageTimer {
 public:
  StageTimer(StageTimes* times, const char* stage) : times_(times), stage_(stage) {}
  ~StageTimer() {
    if (times_) times_->add(stage_, std::chrono::duration<double>(Clock::now() - began_).count());
  }
  StageTimer(const StageTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StageTimes* times_;
  const char* stage_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace coldframe
