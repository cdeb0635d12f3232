// An exception may not pass through a library that is written in C: nothing there would be freed,
// and the standard promises nothing. A callback of ours that such a library calls keeps it, and
// whoever called the library throws it again. (Callbacks that can throw nothing are noexcept.)
#pragma once

#include <exception>
#include <type_traits>

namespace coldframe {

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

  // Behind a call of the library: throws what was kept, if there is any.
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
