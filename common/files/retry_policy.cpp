#include "common/files/retry_policy.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kMaxPause{8000}, kBetweenLooks{50};

std::atomic<double> patience_seconds = 0;
std::atomic<bool> in_vain = false;  // reading was waited for so, and none has worked since

void tell_once(const fs::path& path, int error) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  log_warning(concat("'", path.string(), "': ", std::strerror(error), "; it is tried again for up ",
                     "to ", human_duration(patience_seconds),
                     ", and so is whatever else fails like this, without a further word"));
}

}  // namespace

void set_patience(double seconds) {
  patience_seconds = seconds;
}

void note_reading() {
  in_vain = false;
}

bool is_transient(int error) {
  switch (error) {
    case EIO:
    case ESTALE:
    case ETIMEDOUT:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case EREMOTEIO:
    case EAGAIN:
      return true;
    default:
      return false;
  }
}

bool RetryPolicy::stopped() const {
  return stop_ == Stop::kEnds && stop_requested();
}

bool RetryPolicy::again(int error) {
  if (patience_seconds <= 0 || stopped() || !is_transient(error)) return false;
  if (!end_) {
    if (in_vain && stop_ == Stop::kEnds) return false;
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(patience_seconds));
    tell_once(path_, error);
  }
  const auto until = std::min(Clock::now() + pause_, *end_);
  if (Clock::now() >= *end_) {
    if (stop_ == Stop::kEnds) in_vain = true;
    return false;
  }
  while (Clock::now() < until && !stopped())
    std::this_thread::sleep_for(
        std::min<Clock::duration>(kBetweenLooks, std::max(until - Clock::now(), {})));
  pause_ = std::min(2 * pause_, kMaxPause);
  return !stopped();
}

fs::file_status status_of(const fs::path& path, std::error_code& error) {
  for (RetryPolicy tries(path);;) {
    const fs::file_status status = fs::status(path, error);
    if (fs::exists(status)) return status;
    if (tries.again(error.value())) continue;
    if (!is_transient(error.value())) return status;
    throw SystemError(concat("cannot look for '", path.string(), "': ", error.message()));
  }
}

fs::file_status status_of(const fs::path& path) {
  std::error_code ignored;
  return status_of(path, ignored);
}

std::vector<fs::path> entries_of(const fs::path& folder, std::error_code& error) {
  for (RetryPolicy tries(folder);;) {
    std::vector<fs::path> entries;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
      entries.push_back(entry->path());
    if (!error) note_reading();
    if (!error) return entries;
    if (tries.again(error.value())) continue;
    if (!is_transient(error.value())) return entries;
    throw SystemError(concat("cannot list '", folder.string(), "': ", error.message()));
  }
}

void with_patience(const fs::path& path, const std::function<void()>& body) {
  for (RetryPolicy tries(path, RetryPolicy::Stop::kWaits);;) {
    try {
      body();
      return;
    } catch (const PassingError& error) {
      if (!tries.again(error.error)) throw;
    }
  }
}

}  // namespace coldframe
