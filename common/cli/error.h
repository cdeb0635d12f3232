// The errors that a Coldframe program reports, and the exit code of each.
//
// Exceptions are for what a user or the machine did wrong; their text says what was found, what was
// expected and what to do. Mistakes of ours are assertions.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "common/cli/error.h"
#include "common/text/text.h"

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

// Whoever knows the subject of an error prefixes its message with it.

// Returns what `work` does. Prefixes the message of a DataError with `subject`: "SUBJECT:
// MESSAGE".
template <typename Work>
decltype(auto) in_context(const std::string& subject, const Work& work) {
  try {
    return work();
  } catch (const DataError& error) {
    throw DataError(concat(subject, ": ", error.what()));
  }
}

// An exception may not pass through a library that is written in C: nothing there would be freed,
// and the standard promises nothing. A callback of ours that such a library calls keeps it, and
// whoever called the library throws it again. (Callbacks that can throw nothing are noexcept.)

class KeptError {
 public:
  explicit operator bool() const { return error_ != nullptr; }

  // In a callback: returns what body() returns. Where it throws, that is kept, body() is never
  // called again, and the library gets `failed`.
  template <typename Result, typename Body>
  Result guard(Result failed, const Body& body) noexcept {
    if (error_) return failed;
    try {
      return body();
    } catch (...) {
      error_ = std::current_exception();
    }
    return failed;
  }

  // After a call of the library: rethrows the stored exception, if any.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  // Returns what body() returns, which calls the library. What was kept says more than what the
  // library, and then body(), made of it.
  template <typename Body>
  std::invoke_result_t<Body> call(const Body& body) const {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
        body();
        return rethrow();
      } else {
        auto result = body();
        rethrow();
        return result;
      }
    } catch (...) {
      rethrow();
      throw;
    }
  }

 private:
  std::exception_ptr error_;
};

}  // namespace coldframe
