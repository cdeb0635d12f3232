// The errors that a Coldframe program reports, and the exit code of each.
//
// Exceptions are for what a user or the machine did wrong; their text says what was found, what was
// expected and what to do. Mistakes of ours are assertions.
#pragma once

#include <stdexcept>
#include <string>

namespace coldframe {

enum class ExitCode : int {
  kDone = 0,
  kDoneWithFindings = 1,  // finished, but with failures or findings that somebody should read
  kUsage = 2,
  kFatal = 3,
  kInterrupted = 75,  // stopped by a signal; the same command continues (sysexits' EX_TEMPFAIL)
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

// An option or a combination of options that cannot be carried out.
struct ConfigError : Error {
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

// Input data (frames, manifests, weights, labels) that is wrong or unreadable.
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(ExitCode::kFatal, message) {}
};

// A cache that is damaged, of another recipe, or cannot be written.
struct CacheError : Error {
  explicit CacheError(const std::string& message) : Error(ExitCode::kFatal, message) {}
};

// The machine refused: a full disk, a missing permission, a device that is not there.
struct SystemError : Error {
  explicit SystemError(const std::string& message) : Error(ExitCode::kFatal, message) {}
};

// A signal asked the program to stop; the message says how to continue.
struct Interrupted : Error {
  explicit Interrupted(const std::string& message) : Error(ExitCode::kInterrupted, message) {}
};

}  // namespace coldframe
