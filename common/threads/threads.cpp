#include "common/threads/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <system_error>
#include <utility>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr char kAdvice[] =
    "free memory, or raise the limit on threads (ulimit -u, or that of the container or job)";

// Throws nothing: the threads that were granted would be waited for, and may wait for work
// themselves.
void warn_once(const std::exception& refusal, std::size_t granted, std::size_t wanted) noexcept {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) return;
  try {
    log_warning(concat("the system grants ", granted, " of ", wanted, " further threads (",
                       refusal.what(), "): the work goes on without the others; ", kAdvice,
                       " for its full speed"));
  } catch (const std::exception&) {  // not even memory for the words
  }
}

}  // namespace

std::jthread start_thread(std::function<void()> body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::system_error& refusal) {
    throw SystemError(
        concat("the system refused a thread (", refusal.code().message(), "); ", kAdvice));
  }
}

std::vector<std::jthread> start_threads(std::size_t count, const std::function<void()>& body,
                                        std::size_t least) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  while (threads.size() < std::min(count, least)) threads.push_back(start_thread(body));
  try {
    while (threads.size() < count) threads.emplace_back(body);
  } catch (const std::exception& refusal) {  // or there is no memory for one
    warn_once(refusal, threads.size(), count);
  }
  return threads;
}

void require_threads(std::size_t count) {
  std::latch all(1);
  std::vector<std::jthread> threads;
  try {
    while (threads.size() < count) threads.push_back(start_thread([&] { all.wait(); }));
  } catch (...) {
    all.count_down();
    throw;
  }
  all.count_down();
}

void run_threads(std::size_t count, const std::function<void()>& body) {
  start_threads(count, body, 1).clear();
}

}  // namespace coldframe
