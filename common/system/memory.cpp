#include "common/system/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "common/system/control_groups.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

// A line such as "VmRSS:	  123456 kB" of a file in /proc (proc(5)); 0 where there is none.
std::uint64_t proc_field(const std::filesystem::path& file, const char* name) {
  std::ifstream status(file);
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    const std::string value = trim(std::string_view(line).substr(std::strlen(name)));
    std::int64_t kibibytes = 0;
    if (parse_int(value.substr(0, value.find(' ')), kibibytes) && kibibytes > 0) {
      return static_cast<std::uint64_t>(kibibytes) * 1024;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t resident_bytes() {
  return proc_field("/proc/self/status", "VmRSS:");
}
std::uint64_t peak_resident_bytes() {
  return proc_field("/proc/self/status", "VmHWM:");
}
std::uint64_t available_bytes(const std::filesystem::path& root) {
  const std::uint64_t machine = proc_field(root / "proc/meminfo", "MemAvailable:");
  const std::optional<std::uint64_t> left = memory_left_by_groups(root);
  if (!left) return machine;
  const std::uint64_t available = machine == 0 ? *left : std::min(machine, *left);
  return std::max<std::uint64_t>(available, 1);
}

namespace {

double cpu_seconds(int whose) {
  rusage usage{};
  if (::getrusage(whose, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

double process_cpu_seconds() {
  return cpu_seconds(RUSAGE_SELF);
}

double thread_cpu_seconds() {
  return cpu_seconds(RUSAGE_THREAD);
}

}  // namespace coldframe
