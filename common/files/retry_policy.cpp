#include "common/files/retry_policy.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLongestPause{8000}, kBetweenLooks{50};

std::atomic<double> patience_seconds = 0, patience_after_stop = kUsualPatience;

std::chrono::steady_clock::duration duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

// Where the file systems lie from which files were read, by device. Empty where that cannot be
// told: overlays and files that are mounts have devices that no folder above them has.
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

// The path without its links, those into a mount that is gone too (fs::weakly_canonical stops at
// them). 40 links are Linux's own limit (path_resolution(7)).
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path rest = fs::absolute(path, error), done;
  for (int links = 0; !rest.empty();) {
    const fs::path part = *rest.begin();
    rest = rest.lexically_relative(part);
    if (rest == ".") rest.clear();
    if (part == "..") {
      done = done.parent_path();
    } else if (fs::is_symlink(done / part, error) && ++links <= 40) {
      const fs::path target = fs::read_symlink(done / part, error);
      if (target.is_absolute()) done.clear();
      rest = rest.empty() ? target : target / rest;
    } else if (part != ".") {
      done /= part;
    }
  }
  return done;
}

// The lowest noted mount that the resolved path lies in; empty: none.
fs::path noted_mount(const fs::path& whole) {
  const std::lock_guard lock(mounts_mutex);
  fs::path lowest;
  for (const auto& [device, point] : mounts)
    if (point.has_relative_path() && point.native().size() > lowest.native().size() &&
        std::ranges::mismatch(point, whole).in1 == point.end())
      lowest = point;
  return lowest;
}

// The place of a mount that is gone is a folder like its neighbours.
bool mount_is_gone(const fs::path& path) {
  const fs::path point = noted_mount(resolved(path));
  if (point.empty()) return false;
  const auto device = device_of(point);
  return !device || device == device_of(point.parent_path());
}

// The mount of a path, or the topmost folder above it that cannot be looked at.
fs::path place_of(const fs::path& path) {
  const fs::path whole = resolved(path);
  if (fs::path point = noted_mount(whole); !point.empty()) return point;
  fs::path folder = whole.parent_path();
  if (const auto device = device_of(folder)) return mount_point(whole, *device);
  while (folder.has_relative_path() && !device_of(folder.parent_path()))
    folder = folder.parent_path();
  return folder;
}

// Files that have been waited for in vain, and the places where nothing has worked since.
std::mutex given_up_mutex;
std::set<fs::path> given_up, given_up_places;
std::atomic<bool> any_place_given_up = false;

bool is_given_up(const fs::path& path) {
  const fs::path place = any_place_given_up ? place_of(path) : fs::path();
  const std::lock_guard lock(given_up_mutex);
  return given_up.contains(path) || given_up_places.contains(place);
}

void give_up(const fs::path& path) {
  const fs::path place = place_of(path);
  const std::lock_guard lock(given_up_mutex);
  given_up.insert(path);
  given_up_places.insert(place);
  any_place_given_up = true;
}

void tell_once(const fs::path& path, int error) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  log_warning(concat("'", path.string(), "': ", std::strerror(error), "; it is tried again for up ",
                     "to ", human_duration(patience_seconds),
                     ", and so is whatever else fails like this, without a further word"));
}

}  // namespace

void set_patience(double seconds, double after_stop) {
  patience_seconds = seconds;
  patience_after_stop = after_stop;
}

void note_mount(const fs::path& path, std::uint64_t device) {
  {
    const std::lock_guard lock(mounts_mutex);
    if (mounts.contains(device)) return;
  }
  fs::path point = mount_point(resolved(path), device);
  if (device_of(point) != device) point.clear();
  const std::lock_guard lock(mounts_mutex);
  mounts.emplace(device, std::move(point));
}

void note_success(const fs::path& path) {
  if (!any_place_given_up) return;
  const fs::path place = place_of(path);
  const std::lock_guard lock(given_up_mutex);
  given_up_places.erase(place);
  any_place_given_up = !given_up_places.empty();
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
  if (patience_seconds <= 0 || stopped()) return false;
  if (!is_transient(error) && !(error == ENOENT && mount_is_gone(path_))) return false;
  if (!end_) {
    if (is_given_up(path_)) return false;
    end_ = Clock::now() + duration(patience_seconds);
    tell_once(path_, error);
  }
  if (stop_requested() && !std::exchange(stop_seen_, true))
    end_ = std::min(*end_, Clock::now() + duration(patience_after_stop));
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
    if (!error) note_success(folder);
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
      return note_success(path);
    } catch (const PassingError& error) {
      if (!tries.again(error.error)) throw;
    }
  }
}

}  // namespace coldframe
