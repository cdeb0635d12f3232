// Errors that pass: a network file system that hangs for a while, a handle gone stale. What met one
// is tried again, with growing pauses, before it counts as failed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <vector>

#include "common/cli/error.h"

namespace coldframe {

// Seconds for which one operation is retried. 0, before it is set, means never; programs set
// kUsualPatience when they begin.
inline constexpr double kUsualPatience = 60;
void set_patience(double seconds);

// EIO, ESTALE, ETIMEDOUT, ENOTCONN and their like.
bool is_transient(int error);

// Reading has worked: where it fails, it is waited for again.
void note_reading();

// A file that could not be written for a reason that may pass.
struct PassingError : SystemError {
  PassingError(const std::string& message, int reason) : SystemError(message), error(reason) {}
  int error;
};

// The tries of one operation on `path`:
//   for (RetryPolicy tries(path); !operation();) if (!tries.again(errno)) fail;
class RetryPolicy {
 public:
  // A stop request ends reading; what was computed is still to be written.
  enum class Stop { kEnds, kWaits };
  // The path must outlive this.
  explicit RetryPolicy(const std::filesystem::path& path, Stop stop = Stop::kEnds)
      : path_(path), stop_(stop) {}

  // Sleeps with backoff and returns true; the first time in the program's life it warns. False when
  // the error is permanent, time is up or a stop was requested. Once time was up for reading, none
  // is waited for until one has worked: a share that is gone costs its time once, and not for each
  // of its files.
  bool again(int error);

 private:
  using Clock = std::chrono::steady_clock;
  bool stopped() const;

  const std::filesystem::path& path_;
  Stop stop_;
  std::optional<Clock::time_point> end_;
  std::chrono::milliseconds pause_{50};
};

// What is there, and what lies in a folder: as fs::status and fs::directory_iterator say, but tried
// again. SystemError where that cannot be told, even then, for a reason that may pass: it is not
// taken for nothing. `error`: any other.
std::filesystem::file_status status_of(const std::filesystem::path& path, std::error_code& error);
std::filesystem::file_status status_of(const std::filesystem::path& path);
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder,
                                              std::error_code& error);

// Runs `body`, which writes, as a whole again while it ends in a PassingError.
void with_patience(const std::filesystem::path& path, const std::function<void()>& body);

}  // namespace coldframe
