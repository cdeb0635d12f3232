#include "common/system/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "common/system/control_groups.h"

namespace coldframe {
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
