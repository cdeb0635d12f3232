#include "common/cli/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace coldframe {

namespace {

constexpr std::int64_t kSameSignalSeconds = 5;

std::atomic<bool> stop{false};
std::atomic<std::int64_t> asked_at{0};  // seconds of the monotonic clock, at the first signal
static_assert(std::atomic<bool>::is_always_lock_free &&  // so that the handler may touch them
              std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec;
}

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  return set;
}

void on_signal(int signal_number) {
  if (stop.exchange(true)) {
    if (signal_number == SIGTERM && now() - asked_at < kSameSignalSeconds) return;
    // The second: leave at once, with the status that a shell expects of this signal. Handlers were
    // installed with SA_NODEFER off, so the raise takes effect when this one returns.
    ::signal(signal_number, SIG_DFL);
    ::raise(signal_number);
    return;
  }
  asked_at = now();
  constexpr char kMessage[] =
      "\nstopping after the current unit of work; press Ctrl-C again to stop at once\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // files and decoders need not know about signals
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

void hold_stop_signals() {
  const sigset_t set = stop_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

void release_stop_signals() {
  const sigset_t set = stop_signals();
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

bool stop_requested() {
  return stop;
}
void request_stop() {
  stop = true;
}
void clear_stop_request() {
  stop = false;
}

}  // namespace coldframe
