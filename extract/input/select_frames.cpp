#include "extract/input/select_frames.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"

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
    if (reaches(times[i], selection.start_s) && !reaches(times[i], selection.end_s)) {
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

std::size_t phase_of(double elapsed, std::span<const double> phases) {
  return static_cast<std::size_t>(std::ranges::upper_bound(phases, elapsed) - phases.begin());
}

Indices spread(const Indices& from, std::int64_t count) {
  Indices taken = spread_evenly(static_cast<std::int64_t>(from.size()), count);
  for (std::int64_t& position : taken) position = from[static_cast<std::size_t>(position)];
  return taken;
}

Indices by_phase(const Indices& from, std::span<const double> times,
                 const FrameSelection& selection, double elapsed_start) {
  std::vector<Indices> phases(selection.phases.size() + 1);
  for (const std::int64_t frame : from) {
    const double time = times[static_cast<std::size_t>(frame)];
    if (!std::isfinite(time))
      throw DataError(concat("frame ", frame, " has no known time, which --phases needs; state ",
                             "times in the manifest"));
    phases[phase_of(time + elapsed_start, selection.phases)].push_back(frame);
  }
  const auto parts = static_cast<std::int64_t>(phases.size());
  Indices taken;
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t share = selection.count / parts + (p < selection.count % parts ? 1 : 0);
    if (share == 0) continue;
    for (const std::int64_t frame : spread(phases[static_cast<std::size_t>(p)], share))
      taken.push_back(frame);
  }
  std::ranges::sort(taken);
  return taken;
}

void keep(std::span<const std::int64_t> tails, const Indices& from, Indices& taken) {
  for (const std::int64_t tail : tails)
    if (std::ranges::binary_search(from, tail) && !std::ranges::binary_search(taken, tail))
      taken.insert(std::ranges::lower_bound(taken, tail), tail);
}

}  // namespace

// Counts in integers, so that halves are exact: N = 1 is the middle of the two ends.
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

Indices select_frames(std::span<const double> times, const FrameSelection& selection,
                      double elapsed_start, std::span<const std::int64_t> tails) {
  Indices taken(times.size());
  std::iota(taken.begin(), taken.end(), 0);
  constexpr double kOnly[] = {0.0};
  if (times.size() == 1 && std::isnan(times.front())) times = kOnly;
  if (selection.needs_times()) {
    check_times(times);
    taken = within(times, selection);
  }
  const Indices from = taken;
  taken =
      selection.fps > 0 ? on_grid(taken, times, selection.fps) : every_nth(taken, selection.every);
  keep(tails, from, taken);
  if (!selection.phases.empty() && static_cast<std::int64_t>(taken.size()) > selection.count)
    return by_phase(taken, times, selection, elapsed_start);
  return spread(taken, selection.count);
}

namespace {

// The number of each slot's stream, from 0 in the order of first appearance.
std::vector<std::size_t> streams_of(const ExamSpec& exam, std::span<const std::size_t> items) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> streams;
  for (const std::size_t item : items)
    streams.push_back(numbers.try_emplace(exam.items[item].stream, numbers.size()).first->second);
  return streams;
}

// The same of what a window may not span: streams, and within them files of several frames.
std::vector<std::size_t> recordings_of(const ExamSpec& exam, std::span<const std::size_t> items) {
  constexpr std::size_t kOwnFrame = std::numeric_limits<std::size_t>::max();
  std::map<std::size_t, std::size_t> frames;
  for (const std::size_t item : items) ++frames[item];
  std::map<std::pair<std::string, std::size_t>, std::size_t> numbers;
  std::vector<std::size_t> recordings;
  for (const std::size_t item : items) {
    const std::size_t file = frames[item] > 1 ? item : kOwnFrame;
    recordings.push_back(
        numbers.try_emplace({exam.items[item].stream, file}, numbers.size()).first->second);
  }
  return recordings;
}

}  // namespace

Indices select_slots(const ExamSpec& exam, std::span<const std::size_t> items,
                     std::span<const double> times, const FrameSelection& selection,
                     std::span<const std::int64_t> tails) {
  const double start = std::isnan(exam.elapsed_start) ? 0 : exam.elapsed_start;
  const std::vector<std::size_t> streams = streams_of(exam, items);
  if (streams.empty() || std::ranges::max(streams) == 0)
    return select_frames(times, selection, start, tails);
  const std::vector<std::size_t> instants = instants_of(times, streams);
  std::vector<double> instant_times(std::ranges::max(instants) + 1);
  for (std::size_t slot = items.size(); slot-- > 0;) instant_times[instants[slot]] = times[slot];
  Indices last_instants;
  for (const std::int64_t tail : tails)
    last_instants.push_back(static_cast<std::int64_t>(instants[static_cast<std::size_t>(tail)]));
  std::set<std::size_t> chosen;
  for (const std::int64_t instant : select_frames(instant_times, selection, start, last_instants))
    chosen.insert(static_cast<std::size_t>(instant));
  Indices taken;
  for (std::size_t slot = 0; slot < items.size(); ++slot)
    if (chosen.contains(instants[slot])) taken.push_back(static_cast<std::int64_t>(slot));
  return taken;
}

std::vector<FrameWindow> select_windows(const ExamSpec& exam, std::span<const std::size_t> items,
                                        std::span<const double> times,
                                        const FrameSelection& selection,
                                        std::span<const std::int64_t> tails) {
  return windows_over(select_slots(exam, items, times, selection, tails), times,
                      recordings_of(exam, items), selection.windows);
}

std::vector<std::size_t> count_phases(std::span<const double> times, std::span<const double> phases,
                                      double elapsed_start) {
  std::vector<std::size_t> counts(phases.size() + 1);
  for (const double time : times)
    if (std::isfinite(time)) ++counts[phase_of(time + elapsed_start, phases)];
  return counts;
}

}  // namespace coldframe::frames
