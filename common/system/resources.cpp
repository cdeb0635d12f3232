#include "common/system/resources.h"

#include <sched.h>
#include <sys/resource.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/text/text.h"

namespace coldframe {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUnified = "";  // version 2, which has all controllers in one hierarchy

bool lists(const std::string& words, const std::string& word) {
  const std::vector<std::string> all = split(words, ',');
  return std::ranges::find(all, word) != all.end();
}

// proc(5) writes spaces and their like as \040.
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      const auto digit = [&](std::size_t place) { return text[i + place] - '0'; };
      plain += static_cast<char>(64 * digit(1) + 8 * digit(2) + digit(3));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// This process's group in the controller's hierarchy; empty where there is none. Lines of
// /proc/self/cgroup are "4:memory:/group", and "0::/group" of version 2.
fs::path group_in(const fs::path& root, const std::string& controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it =
        controller == kUnified ? line.starts_with("0::") : lists(controllers, controller);
    if (is_it) return line.substr(second + 1);
  }
  return {};
}

struct Mount {
  fs::path shown, place;  // the group at its top, and where that is
};

// A line of /proc/self/mountinfo (proc(5)): "36 35 98:0 /shown /place options… - type source
// options".
std::optional<Mount> mount_of(const std::string& line, const std::string& controller) {
  std::istringstream text(line);
  const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const auto dash = std::ranges::find(words, "-");
  if (dash - words.begin() < 6 || words.end() - dash < 4) return {};
  const std::string &type = dash[1], &options = dash[3];
  const bool is_it =
      controller == kUnified ? type == "cgroup2" : type == "cgroup" && lists(options, controller);
  if (!is_it) return {};
  return Mount{unescaped(words[3]), unescaped(words[4])};
}

// The folders of this process's group and of those that hold it, as far as they can be seen. A
// container may see its own group at the top of a mount, whatever /proc/self/cgroup calls it.
std::vector<fs::path> folders_of(const fs::path& root, const std::string& controller) {
  std::vector<fs::path> folders;
  const fs::path group = group_in(root, controller);
  if (group.empty()) return folders;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto mount = mount_of(line, controller);
    if (!mount) continue;
    folders.push_back(root / mount->place.relative_path());
    const fs::path below = group.lexically_relative(mount->shown);
    if (below.empty() || *below.begin() == ".." || below == ".") continue;
    for (const fs::path& part : below) folders.push_back(folders.back() / part);
  }
  return folders;
}

// The first number in a file of one line; none for "max", or where there is no such file.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream text(file);
  double number = 0;
  if (text >> number && number >= 0) return number;
  return {};
}

// Of a line "name 123" of memory.stat, 0 where there is none.
double statistic(const fs::path& folder, const std::string& name) {
  std::ifstream text(folder / "memory.stat");
  std::string word;
  for (double number = 0; text >> word >> number;)
    if (word == name) return number;
  return 0;
}

std::optional<double> least(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// What a group leaves, by the names that its version gives to its files.
struct MemoryFiles {
  std::vector<const char*> limits;
  const char *taken, *can_be_dropped;
};

std::optional<double> memory_left(const fs::path& folder, const MemoryFiles& files) {
  std::optional<double> limit;
  for (const char* name : files.limits) limit = least(limit, number_in(folder / name));
  const std::optional<double> taken = number_in(folder / files.taken);
  if (!limit || !taken) return {};
  return std::max(0.0, *limit - std::max(0.0, *taken - statistic(folder, files.can_be_dropped)));
}

// Microseconds of processors' time in a period of so many.
std::optional<double> share_of_time(std::optional<double> time, std::optional<double> period) {
  if (!time || !period || *time <= 0 || *period <= 0) return {};
  return *time / *period;
}

std::optional<double> processors_of(const fs::path& folder) {  // version 2: "150000 100000"
  std::ifstream text(folder / "cpu.max");
  double time = 0, period = 0;
  if (!(text >> time >> period)) return {};
  return share_of_time(time, period);
}

std::optional<double> processors_of_v1(const fs::path& folder) {
  return share_of_time(number_in(folder / "cpu.cfs_quota_us"),
                       number_in(folder / "cpu.cfs_period_us"));
}

std::optional<double> least_of(const std::vector<fs::path>& folders,
                               const std::function<std::optional<double>(const fs::path&)>& value) {
  std::optional<double> found;
  for (const fs::path& folder : folders) found = least(found, value(folder));
  return found;
}

}  // namespace

std::optional<std::uint64_t> memory_left_by_groups(const fs::path& root) {
  const MemoryFiles v2{{"memory.max", "memory.high"}, "memory.current", "inactive_file"};
  const MemoryFiles v1{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
  const auto left = least(least_of(folders_of(root, kUnified),
                                   [&](const fs::path& folder) { return memory_left(folder, v2); }),
                          least_of(folders_of(root, "memory"), [&](const fs::path& folder) {
                            return memory_left(folder, v1);
                          }));
  constexpr double kNoLimit = 0x1p62;  // version 1 writes the largest number of whole pages
  if (!left || *left >= kNoLimit) return {};
  return static_cast<std::uint64_t>(*left);
}

std::optional<double> processors_of_groups(const fs::path& root) {
  return least(least_of(folders_of(root, kUnified), processors_of),
               least_of(folders_of(root, "cpu"), processors_of_v1));
}

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

void raise_limit_of_open_files() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // where it is refused the old one holds
}

std::size_t max_kept_open() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::size_t>::max();
  return limit.rlim_cur / 4;
}

namespace {

std::size_t in_affinity_mask() {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0)
    return static_cast<std::size_t>(CPU_COUNT(&mask));
  return std::thread::hardware_concurrency();  // of machines with more than 1024
}

}  // namespace

std::size_t count_processors(const std::filesystem::path& root) {
  const auto here = static_cast<double>(in_affinity_mask());
  const double quota = std::ceil(processors_of_groups(root).value_or(here));
  return static_cast<std::size_t>(std::max(1.0, std::min(here, quota)));
}

std::size_t usable_processors() {
  static const std::size_t found = count_processors();
  return found;
}

}  // namespace coldframe
