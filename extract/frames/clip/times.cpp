#include "extract/frames/clip/times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coldframe::frames {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool rises(const std::vector<double>& times, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite(times[i]) || (i > 0 && times[i] <= times[i - 1])) return false;
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

std::vector<double> settle_times(std::vector<double> reported) {
  if (reported.empty()) return reported;
  std::size_t count = reported.size();  // of frames whose time was reported
  while (count > 1 && std::isnan(reported[count - 1])) --count;
  if (!rises(reported, count)) {
    std::fill(reported.begin(), reported.end(), kUnknown);
    return reported;
  }
  const double first = reported.front();
  const double interval = constant_interval(reported, count);
  for (std::size_t i = 0; i < reported.size(); ++i) {
    reported[i] = i < count ? reported[i] - first
                            : reported[count - 1] + interval * static_cast<double>(i - count + 1);
  }
  return reported;
}

}  // namespace coldframe::frames
