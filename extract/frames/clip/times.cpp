#include "extract/frames/clip/times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool rises(const std::vector<std::int64_t>& stamps, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (stamps[i] == AV_NOPTS_VALUE || (i > 0 && stamps[i] <= stamps[i - 1])) return false;
  }
  return true;
}

// What containers round away (milliseconds in some), or a twentieth.
double tolerance_of(double interval) {
  return std::max(0.002, interval / 20);
}

// The mean of intervals, NaN unless they are constant.
double constant_interval(const std::vector<double>& times, std::size_t count) {
  if (count < 2) return kUnknown;
  double least = times[1] - times[0], most = least;
  for (std::size_t i = 2; i < count; ++i) {
    least = std::min(least, times[i] - times[i - 1]);
    most = std::max(most, times[i] - times[i - 1]);
  }
  const double mean = (times[count - 1] - times[0]) / static_cast<double>(count - 1);
  const double tolerance = tolerance_of(mean);
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

std::string gap_in(const std::vector<double>& times) {
  constexpr std::size_t kFewest = 10;  // intervals, of which one may be a gap
  std::vector<double> intervals;
  for (std::size_t i = 1; i < times.size(); ++i) intervals.push_back(times[i] - times[i - 1]);
  if (intervals.size() < kFewest ||
      std::ranges::any_of(intervals, [](double t) { return !(t > 0); }))
    return "";
  std::vector<double> sorted = intervals;
  const auto middle = sorted.begin() + std::ssize(sorted) / 2;
  std::ranges::nth_element(sorted, middle);
  const double usual = *middle;
  const auto is_gap = [&](double interval) { return interval > 1.5 * usual; };
  const auto is_usual = [&](double t) { return std::abs(t - usual) <= tolerance_of(usual); };
  const auto first = std::ranges::find_if(intervals, is_gap);
  const auto gaps = static_cast<std::size_t>(std::ranges::count_if(intervals, is_gap));
  const auto even = static_cast<std::size_t>(std::ranges::count_if(intervals, is_usual));
  if (gaps == 0 || gaps > intervals.size() / kFewest || gaps + even < intervals.size()) return "";
  const auto before = first - intervals.begin();
  return concat(fixed(*first, 3), " s pass between its frames ", before, " and ", before + 1,
                gaps > 1 ? concat(", so do more between ", plural(gaps - 1, "other pair")) : "",
                ", and ", fixed(usual, 3), " s between the others: frames may be missing there");
}

}  // namespace coldframe::frames
