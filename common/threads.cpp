#include "common/threads.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"

namespace coldframe {
namespace {

constexpr char kAdvice[] =
    "free memory, or raise the limit on threads (ulimit -u, or that of the container or job)";

void warn_once(const std::exception& refusal, std::size_t granted, std::size_t wanted) {
  static std::once_flag flag;
  std::call_once(flag, [&] {
    log_warning(concat("the system gives ", granted, " threads instead of ", wanted, " (",
                       refusal.what(), "): the work goes on with these; ", kAdvice,
                       " for its full speed"));
  });
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

void run_threads(std::size_t count, const std::function<void()>& body) {
  start_threads(count, body, 1).clear();
}

}  // namespace coldframe
