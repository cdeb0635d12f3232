#include "common/threads.h"

#include <algorithm>
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

void warn_once(const std::system_error& refusal, std::size_t granted, std::size_t wanted) {
  static std::once_flag flag;
  std::call_once(flag, [&] {
    log_warning(concat("the system gives ", granted, " threads instead of ", wanted, " (",
                       refusal.code().message(), "): the work goes on with these; ", kAdvice,
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
  } catch (const std::system_error& refusal) {
    warn_once(refusal, threads.size(), count);
  }
  return threads;
}

}  // namespace coldframe
