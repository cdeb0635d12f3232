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

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

sigset_t stop_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal_number : kStopSignals) ::sigaddset(&set, signal_number);
  return set;
}

// With the status that a shell expects of this signal. What the signal would do by itself is left
// out in the first process of a container (pid_namespaces(7)).
[[noreturn]] void leave(int signal_number) {
  ::signal(signal_number, SIG_DFL);
  const sigset_t set = stop_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal_number);
  constexpr int kByASignal = 128;
  ::_exit(kByASignal + signal_number);
}

// Signals may come to several threads at once, and one amid the handler of another.
void on_signal(int signal_number) {
  if (!stop.exchange(true)) {
    asked_at = now();
    constexpr char kMessage[] =
        "\nstopping after the current unit of work; press Ctrl-C again to stop at once\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    return;
  }
  const std::int64_t first = asked_at;  // 0: its handler is just about to set it
  const bool is_the_same = first == 0 || now() - first < kSameSignalSeconds;
  if (signal_number == SIGINT || !is_the_same) leave(signal_number);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // files and decoders need not know about signals
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

void leave_at_stop_signals_if_first() {
  if (::getpid() != 1) return;
  struct sigaction action = {};
  action.sa_handler = leave;
  ::sigemptyset(&action.sa_mask);
  for (const int signal_number : kStopSignals) {
    struct sigaction known = {};
    ::sigaction(signal_number, nullptr, &known);
    if (known.sa_handler == SIG_DFL) ::sigaction(signal_number, &action, nullptr);
  }
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
  if (!stop.exchange(true)) asked_at = now();
}
void clear_stop_request() {
  stop = false;
  asked_at = 0;
}

}  // namespace coldframe
