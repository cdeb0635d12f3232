// How long the stages of a job's start and its end take.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace coldframe {

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
