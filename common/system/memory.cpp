#include "common/system/memory.h"

#include <cstring>
#include <fstream>
#include <string>

#include "common/text.h"

namespace coldframe {

namespace {

// A line of /proc/self/status, "VmRSS:	  123456 kB" (proc(5)); 0 where there is none.
std::uint64_t status_field(const char* name) {
  std::ifstream status("/proc/self/status");
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
  return status_field("VmRSS:");
}
std::uint64_t peak_resident_bytes() {
  return status_field("VmHWM:");
}

}  // namespace coldframe
