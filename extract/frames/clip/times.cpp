#include "extract/frames/clip/times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coldframe::frames {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool rises(const std::vector<std::int64_t>& stamps, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (stamps[i] == AV_NOPTS_VALUE || (i > 0 && stamps[i] <= stamps[i - 1])) return false;
  }
  return true;
}

// The mean of intervals, NaN unless they are constant up to what containers round away
// (milliseconds in some) or a twentieth.
double constant_interval(const std::vector<double>& times, std::size_t count) {
  if (count < 2) return kUnknown;
  double least = times[1] - times[0], most = least;
  for (std::size_t i = 2; i < count; ++i) {
    least = std::min(least, times[i] - times[i - 1]);
    most = std::max(most, times[i] - times[i - 1]);
  }
  const double mean = (times[count - 1] - times[0]) / static_cast<double>(count - 1);
  const double tolerance = std::max(0.002, mean / 20);
  return mean - least <= tolerance && most - mean <= tolerance ? mean : kUnknown;
}

}  // namespace

std::vector<double> settle_times(const std::vector<std::int64_t>& stamps, const AVRational& unit) {
  std::vector<double> times(stamps.size(), kUnknown);
  if (stamps.empty()) return times;
  std::size_t count = stamps.size();  // of frames whose time was reported
  while (count > 1 && stamps[count - 1] == AV_NOPTS_VALUE) --count;
  if (!rises(stamps, count)) return times;
  for (std::size_t i = 0; i < count; ++i)
    times[i] = static_cast<double>(stamps[i] - stamps[0]) * unit.num / unit.den;
  const double interval = constant_interval(times, count);
  for (std::size_t i = count; i < times.size(); ++i)
    times[i] = times[count - 1] + interval * static_cast<double>(i - count + 1);
  return times;
}

}  // namespace coldframe::frames
