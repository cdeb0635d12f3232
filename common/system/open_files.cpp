#include "common/system/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace coldframe {

void raise_limit_of_open_files() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused the old one holds
}

std::size_t open_files_of_one(std::size_t wanted) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 1, wanted);
}

}  // namespace coldframe
