#include "common/files/patience.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLongestPause{8000}, kBetweenLooks{50};

std::atomic<double> patience_seconds = 0;

// Files that have been waited for in vain.
std::mutex given_up_mutex;
std::set<fs::path> given_up;

bool is_given_up(const fs::path& path) {
  const std::lock_guard lock(given_up_mutex);
  return given_up.contains(path);
}

void give_up(const fs::path& path) {
  const std::lock_guard lock(given_up_mutex);
  given_up.insert(path);
}

// Where the file systems lie from which files were read, by device.
std::mutex mounts_mutex;
std::map<std::uint64_t, fs::path> mounts;

std::optional<std::uint64_t> device_of(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_dev;
}

// The topmost folder above the path that lies on the device.
fs::path mount_point(const fs::path& path, std::uint64_t device) {
  fs::path point = path.parent_path();
  while (point.has_relative_path() && device_of(point.parent_path()) == device)
    point = point.parent_path();
  return point;
}

// The place of a mount that is gone is a folder like its neighbours.
bool mount_is_gone(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  const std::lock_guard lock(mounts_mutex);
  return std::ranges::any_of(mounts, [&](const auto& mount) {
    const fs::path& point = mount.second;
    if (std::ranges::mismatch(point, whole).in1 != point.end()) return false;
    const auto device = device_of(point);
    return point.has_relative_path() && (!device || device == device_of(point.parent_path()));
  });
}

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

void note_mount(const fs::path& path, std::uint64_t device) {
  const std::lock_guard lock(mounts_mutex);
  if (mounts.contains(device)) return;
  std::error_code error;
  mounts.emplace(device, mount_point(fs::absolute(path, error), device));
}

bool may_pass(int error) {
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

bool Patience::stopped() const {
  return stop_ == Stop::kEnds && stop_requested();
}

bool Patience::again(int error) {
  if (patience_seconds <= 0 || stopped()) return false;
  if (!may_pass(error) && !(error == ENOENT && mount_is_gone(path_))) return false;
  if (!end_) {
    if (is_given_up(path_)) return false;
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(patience_seconds));
    tell_once(path_, error);
  }
  const auto until = std::min(Clock::now() + pause_, *end_);
  if (Clock::now() >= *end_) {
    give_up(path_);
    return false;
  }
  while (Clock::now() < until && !stopped())
    std::this_thread::sleep_for(
        std::min<Clock::duration>(kBetweenLooks, std::max(until - Clock::now(), {})));
  pause_ = std::min(2 * pause_, kLongestPause);
  return !stopped();
}

void with_patience(const fs::path& path, const std::function<void()>& body) {
  for (Patience tries(path, Patience::Stop::kWaits);;) {
    try {
      return body();
    } catch (const PassingError& error) {
      if (!tries.again(error.error)) throw;
    }
  }
}

}  // namespace coldframe
