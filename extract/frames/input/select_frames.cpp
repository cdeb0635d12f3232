// Frames by time, by distance and by number; see FrameSelection.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

using Indices = std::vector<std::int64_t>;

// A tie between two frames must not hang on how k / fps is rounded: containers' clocks are coarser.
constexpr double kTieSeconds = 1e-6;

void check_times(std::span<const double> times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (!std::isfinite(times[i])) {
      throw DataError(concat("frame ", i,
                             " has no known time, which --fps, --start and --end need; ",
                             "use --every or --frames, or state times in the manifest"));
    }
    if (i > 0 && times[i] < times[i - 1]) {
      throw DataError(concat("frame ", i, " has time ", fixed(times[i], 3), " s after frame ",
                             i - 1, " at ", fixed(times[i - 1], 3),
                             " s; --fps, --start and --end need frames in the order of time"));
    }
  }
}

Indices within(std::span<const double> times, const FrameSelection& selection) {
  Indices inside;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] >= selection.start_s && times[i] < selection.end_s) {
      inside.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (inside.empty() && !times.empty()) {
    throw DataError(concat("none of its ", plural(times.size(), "frame"),
                           " lies between --start and --end; the last is at ",
                           fixed(times.back(), 3), " s"));
  }
  return inside;
}

Indices every_nth(const Indices& from, std::int64_t step) {
  Indices taken;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (static_cast<std::int64_t>(i) % step == 0) taken.push_back(from[i]);
  }
  return taken;
}

// A frame is nearest to a point of the grid when one lies between the middles of the gaps around
// it. Counting the grid's points up to each middle takes no longer for a fine grid than for a
// coarse one.
Indices on_grid(const Indices& from, std::span<const double> times, double fps) {
  const auto time_of = [&](std::size_t i) { return times[static_cast<std::size_t>(from[i])]; };
  Indices taken;
  double before = -1;  // the grid's last point that belongs to an earlier frame
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool is_last = i + 1 == from.size();
    const double until = is_last ? time_of(i) : time_of(i) + (time_of(i + 1) - time_of(i)) / 2;
    const double point = std::floor((until - time_of(0) + kTieSeconds) * fps);
    if (point > before) taken.push_back(from[i]);
    before = std::max(before, point);
  }
  return taken;
}

}  // namespace

// Counts in whole numbers, so that halves are exact: N = 1 is the middle of the two ends.
Indices spread_evenly(std::int64_t available, std::int64_t count) {
  Indices taken;
  if (count == 0 || available <= count) {
    taken.resize(static_cast<std::size_t>(available));
    std::iota(taken.begin(), taken.end(), 0);
    return taken;
  }
  const std::int64_t divisor = count == 1 ? 2 : count - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t product = (count == 1 ? 1 : i) * (available - 1);
    const std::int64_t floor = product / divisor, twice = 2 * (product % divisor);
    const bool up = twice > divisor || (twice == divisor && floor % 2 == 1);
    taken.push_back(floor + (up ? 1 : 0));
  }
  return taken;
}

Indices select_frames(std::span<const double> times, const FrameSelection& selection) {
  Indices taken(times.size());
  std::iota(taken.begin(), taken.end(), 0);
  constexpr double kOnly[] = {0.0};
  if (times.size() == 1 && std::isnan(times.front())) times = kOnly;
  if (selection.needs_times()) {
    check_times(times);
    taken = within(times, selection);
  }
  taken =
      selection.fps > 0 ? on_grid(taken, times, selection.fps) : every_nth(taken, selection.every);
  Indices spread = spread_evenly(static_cast<std::int64_t>(taken.size()), selection.count);
  for (std::int64_t& position : spread) position = taken[static_cast<std::size_t>(position)];
  return spread;
}

}  // namespace coldframe::frames
