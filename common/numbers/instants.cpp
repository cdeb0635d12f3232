#include "common/numbers/instants.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace coldframe {
namespace {

constexpr double kSameInstant = 1e-3;  // seconds

}  // namespace

std::vector<std::size_t> instants_of(std::span<const double> times,
                                     std::span<const std::size_t> streams) {
  std::vector<std::size_t> order(times.size()), instants(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool is_timed = std::ranges::all_of(times, [](double time) { return std::isfinite(time); });
  if (is_timed)
    std::ranges::stable_sort(order, {}, [&](std::size_t frame) { return times[frame]; });
  std::map<std::size_t, std::size_t> next;  // a stream's next instant among those of this time
  std::size_t first = 0, end = 0;           // the instants of this time
  double begun = 0;
  for (const std::size_t frame : order) {
    if (is_timed && (end == 0 || times[frame] - begun > kSameInstant)) {
      next.clear();
      first = end;
      begun = times[frame];
    }
    std::size_t& instant = next.try_emplace(streams[frame], first).first->second;
    instants[frame] = instant++;
    end = std::max(end, instant);
  }
  return instants;
}

}  // namespace coldframe
