// A loop whose turns run on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "common/system/processors.h"
#include "common/threads/threads.h"

namespace coldframe {

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
