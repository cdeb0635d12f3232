// Starting threads on a system that may refuse them: a limit of the user, the container or the job.
// (Those of LibTorch's own pool, when refused, end the program with OpenMP's words.)
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "common/system/resources.h"

namespace coldframe {

// A thread that runs body(). SystemError where the system refuses it, std::bad_alloc where there is
// no memory for it.
std::jthread start_thread(std::function<void()> body);

// `count` threads that run body() each, or as many of them as the system grants, with a warning
// once in a program's life. As start_thread(), and no thread, where these are fewer than `least` (0
// or 1).
std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& body,
                                        std::size_t least = 0);

// SystemError unless the system grants `count` threads at this moment, beside those that there are.
void require_threads(std::size_t count);

// Runs body() on `count` threads, at least on one, until all have returned.
void run_threads(std::size_t count, const std::function<void()>& body);

// A loop whose turns run on several threads.

// body(0) … body(count − 1), each once, in any order, on at most `threads` threads (0: one for each
// processor that it may use). When some throw, the error of the lowest of them is rethrown once all
// threads have ended; turns that have not begun by then are left out.
template <typename Body>
void parallel_for(std::size_t count, Body body, std::size_t threads = 0) {
  if (threads == 0) threads = usable_processors();
  threads = std::min(threads, count);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t failed = count;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
        next = count;
      }
    }
  };
  std::vector<std::jthread> helpers = start_threads(threads > 0 ? threads - 1 : 0, work);
  work();
  helpers.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace coldframe
