#include "common/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace coldframe {

namespace {

std::atomic<bool> stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // so that the handler may touch it

void on_signal(int signal_number) {
  if (stop.exchange(true)) {
    // The second: leave at once, with the status that a shell expects of this signal. Handlers were
    // installed with SA_NODEFER off, so the raise takes effect when this one returns.
    ::signal(signal_number, SIG_DFL);
    ::raise(signal_number);
    return;
  }
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
