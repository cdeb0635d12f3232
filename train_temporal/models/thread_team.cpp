#include "train_temporal/models/thread_team.h"

#include <utility>

#include "common/threads/threads.h"

namespace coldframe::temporal {
namespace {

// Spins for a while before it sleeps: waking takes longer than most parts of a step.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  constexpr int kLooks = 300;
  for (int look = 0; look < kLooks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(std::size_t threads, const std::function<void()>& begin) {
  helpers_ = start_threads(threads > 0 ? threads - 1 : 0, [this, begin] {
    if (begin) begin();
    help();
  });
}

ThreadTeam::~ThreadTeam() {
  ending_ = true;
  ++round_;
  round_.notify_all();
  helpers_.clear();
}

void ThreadTeam::run(std::size_t count, Task task) {
  task_ = task;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  if (helpers_.empty() || count < 2) {
    take_turns();
  } else {
    busy_.store(static_cast<std::uint32_t>(helpers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    take_turns();
    for (std::uint32_t busy = busy_.load(); busy != 0; busy = busy_.load()) wait_while(busy_, busy);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadTeam::take_turns() {
  try {
    for (std::size_t i = next_++; i < count_; i = next_++) task_.call(task_.data, i);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    next_ = count_;
  }
}

void ThreadTeam::help() {
  for (std::uint32_t seen = 0;;) {
    wait_while(round_, seen);
    ++seen;
    if (ending_) return;
    take_turns();
    if (busy_.fetch_sub(1, std::memory_order_release) == 1) busy_.notify_all();
  }
}

}  // namespace coldframe::temporal
