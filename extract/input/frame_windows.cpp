#include "extract/input/frame_windows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/source.h"
#include "extract/input/select_frames.h"

namespace coldframe::frames {
namespace {

using Indices = std::vector<std::int64_t>;

// Containers round times to milliseconds.
constexpr double kRoundingSeconds = 1e-3;
constexpr std::int64_t kMostSteps = 1 << 20;  // of a run

// The frames of one stream without a forbidden gap.
struct Run {
  Indices slots;
  std::vector<double> times;

  std::int64_t size() const { return static_cast<std::int64_t>(slots.size()); }
  double span_s() const { return times.back() - times.front(); }
  double tolerance_s() const {
    return size() < 2 ? 0
                      : std::min(kRoundingSeconds, span_s() / static_cast<double>(size() - 1) / 4);
  }
  // The last frame that has begun at a time.
  std::int64_t shown_at(double time_s) const {
    const auto later = std::ranges::upper_bound(times, time_s + tolerance_s());
    return std::max<std::int64_t>(0, later - times.begin() - 1);
  }
  bool lasts_until(double time_s) const { return time_s <= times.back() + tolerance_s(); }
};

// A window's first frame, and the time from which the frames of a rate count.
struct Start {
  std::int64_t frame = 0;
  double time_s = 0;
};

// numpy.linspace(0, length, count), at most length - 1 and rounded down.
Indices along(std::int64_t length, std::int64_t count) {
  Indices positions(static_cast<std::size_t>(count));
  const double step =
      static_cast<double>(length) / static_cast<double>(std::max<std::int64_t>(1, count - 1));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto exact = static_cast<std::int64_t>(static_cast<double>(i) * step);
    positions[static_cast<std::size_t>(i)] =
        i > 0 && i + 1 == count ? length - 1 : std::min(exact, length - 1);
  }
  return positions;
}

// Applies a rule to one run.
class RunWindows {
 public:
  RunWindows(const Run& run, const WindowRule& rule) : run_(run), rule_(rule) {}

  // Where windows begin of which all frames lie within the run.
  std::vector<Start> whole() const {
    std::vector<Start> starts = rule_.step_s > 0 ? starts_in_seconds() : starts_in_frames();
    std::erase_if(starts, [&](const Start& start) { return !is_whole(start); });
    return starts;
  }

  FrameWindow window(const Start& start) const {
    FrameWindow window;
    for (const std::int64_t frame : frames_from(start))
      window.slots.push_back(run_.slots[static_cast<std::size_t>(frame)]);
    pad(window);
    return window;
  }

 private:
  std::int64_t length() const {
    return rule_.sampling == WindowSampling::kLinspace ? rule_.frames * rule_.every
                                                       : (rule_.frames - 1) * rule_.every + 1;
  }

  std::vector<Start> starts_in_frames() const {
    std::vector<Start> starts;
    for (std::int64_t i = 0; i < run_.size(); i += rule_.step)
      starts.push_back({i, run_.times[static_cast<std::size_t>(i)]});
    return starts;
  }

  // Steps shorter than the distance of frames give a window more than once: the first one counts.
  std::vector<Start> starts_in_seconds() const {
    if (run_.span_s() > static_cast<double>(kMostSteps) * rule_.step_s)
      throw DataError(concat("it lasts ", fixed(run_.span_s(), 0), " s, more than ", kMostSteps,
                             " times --clip-step-seconds ", rule_.step_s));
    std::vector<Start> starts;
    for (std::int64_t i = 0;; ++i) {
      const double time = run_.times.front() + static_cast<double>(i) * rule_.step_s;
      if (!run_.lasts_until(time)) return starts;
      const Start start{run_.shown_at(time), time};
      if (starts.empty() || frames_from(starts.back()) != frames_from(start))
        starts.push_back(start);
    }
  }

  bool is_whole(const Start& start) const {
    return rule_.fps > 0
               ? run_.lasts_until(start.time_s + static_cast<double>(rule_.frames - 1) / rule_.fps)
               : start.frame + length() <= run_.size();
  }

  // As many as the run has.
  Indices frames_from(const Start& start) const {
    const std::int64_t left = run_.size() - start.frame;
    Indices frames;
    if (rule_.fps > 0) {
      for (std::int64_t i = 0; i < rule_.frames; ++i) {
        const double time = start.time_s + static_cast<double>(i) / rule_.fps;
        if (!run_.lasts_until(time)) break;
        frames.push_back(run_.shown_at(time));
      }
    } else if (rule_.sampling == WindowSampling::kLinspace) {
      const bool is_whole = length() <= left;
      const std::int64_t count = is_whole ? rule_.frames : left / rule_.every;
      frames = along(is_whole ? length() : left, count);
      if (frames.empty()) frames.push_back(left - 1);
      for (std::int64_t& frame : frames) frame += start.frame;
    } else {
      for (std::int64_t i = 0; i < rule_.frames && i * rule_.every < left; ++i)
        frames.push_back(start.frame + i * rule_.every);
    }
    return frames;
  }

  void pad(FrameWindow& window) const {
    const std::size_t found = window.slots.size();
    window.padded = static_cast<std::size_t>(rule_.frames) - found;
    for (std::size_t i = 0; i < window.padded; ++i)
      window.slots.push_back(rule_.pad == WindowPad::kZero   ? FrameWindow::kBlank
                             : rule_.pad == WindowPad::kWrap ? window.slots[i]
                                                             : window.slots[found - 1]);
  }

  const Run& run_;
  const WindowRule& rule_;
};

void require_times(const Run& stream) {
  for (std::size_t i = 0; i < stream.times.size(); ++i) {
    if (!std::isfinite(stream.times[i]))
      throw DataError(concat("frame ", stream.slots[i],
                             " has no known time, which --clip-fps, --clip-step-seconds and "
                             "--clip-gap need; use --clip-every and --clip-step, or state times "
                             "in the manifest"));
    if (i > 0 && stream.times[i] < stream.times[i - 1])
      throw DataError(concat("frame ", stream.slots[i], " has an earlier time than frame ",
                             stream.slots[i - 1],
                             "; --clip-fps, --clip-step-seconds and --clip-gap need the frames of "
                             "a stream in the order of time"));
  }
}

std::vector<Run> runs_of(const Run& stream, double gap_s) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < stream.slots.size(); ++i) {
    const bool is_apart =
        i > 0 && std::isfinite(gap_s) && !reaches(gap_s, stream.times[i] - stream.times[i - 1]);
    if (i == 0 || is_apart) runs.emplace_back();
    runs.back().slots.push_back(stream.slots[i]);
    runs.back().times.push_back(stream.times[i]);
  }
  return runs;
}

using RunStart = std::pair<std::size_t, Start>;  // the run, and where in it

// rule.count of the windows that start so, spread evenly, or all.
void take(const std::vector<Run>& runs, const WindowRule& rule, const std::vector<RunStart>& starts,
          std::vector<FrameWindow>& windows) {
  for (const std::int64_t i : spread_evenly(static_cast<std::int64_t>(starts.size()), rule.count)) {
    const auto& [run, start] = starts[static_cast<std::size_t>(i)];
    windows.push_back(RunWindows(runs[run], rule).window(start));
  }
}

void add_windows(const Run& stream, const WindowRule& rule, std::vector<FrameWindow>& windows) {
  if (rule.follows_times()) require_times(stream);
  const std::vector<Run> runs = runs_of(stream, rule.gap_s);
  std::vector<RunStart> whole, padded;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const std::vector<Start> starts = RunWindows(runs[run], rule).whole();
    for (const Start& start : starts) whole.emplace_back(run, start);
    if (starts.empty() && rule.pad != WindowPad::kRefuse)
      padded.emplace_back(run, Start{0, runs[run].times.front()});
  }
  if (rule.count == 0 || !whole.empty()) take(runs, rule, whole, windows);
  if (rule.count == 0 || whole.empty()) take(runs, rule, padded, windows);
}

// Of the frames that a window saw.
std::int64_t middle_of(std::span<const std::int64_t> seen) {
  return seen[(seen.size() - 1) / 2];
}

std::string length_text(const WindowRule& rule) {
  return rule.fps > 0 ? concat(rule.frames, " frames at ", rule.fps, " a second")
                      : concat(rule.frames, " frames, every ", rule.every);
}

}  // namespace

bool WindowRule::follows_times() const {
  return fps > 0 || step_s > 0 || std::isfinite(gap_s);
}

std::vector<FrameWindow> windows_over(std::span<const std::int64_t> selected,
                                      std::span<const double> times,
                                      std::span<const std::size_t> recordings,
                                      const WindowRule& rule) {
  std::map<std::size_t, Run> of_stream;
  for (const std::int64_t slot : selected) {
    const auto at = static_cast<std::size_t>(slot);
    Run& stream = of_stream[rule.is_of_clips() ? recordings[at] : 0];
    stream.slots.push_back(slot);
    stream.times.push_back(selected.size() == 1 && std::isnan(times[at]) ? 0 : times[at]);
  }
  std::vector<FrameWindow> windows;
  for (const auto& [number, stream] : of_stream) add_windows(stream, rule, windows);
  if (windows.empty())
    throw DataError(concat("no part of its ", plural(selected.size(), "frame"),
                           " is long enough for a window of ", length_text(rule),
                           "; --clip-pad repeat-last, zero or wrap pads what is too short"));
  std::ranges::stable_sort(windows, {}, [](const auto& each) { return middle_of(each.seen()); });
  return windows;
}

std::vector<std::int64_t> slots_of(std::span<const FrameWindow> windows) {
  Indices slots;
  for (const FrameWindow& window : windows)
    slots.insert(slots.end(), window.seen().begin(), window.seen().end());
  std::ranges::sort(slots);
  slots.erase(std::ranges::unique(slots).begin(), slots.end());
  return slots;
}

std::vector<WindowRow> rows_of(std::span<const FrameWindow> windows, std::size_t steps) {
  std::vector<WindowRow> rows;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const std::size_t frames = windows[w].slots.size(), seen = windows[w].seen().size();
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t begin = step * frames / steps, end = (step + 1) * frames / steps;
      if (begin >= seen) break;
      const auto own = windows[w].seen().subspan(begin, std::min(end, seen) - begin);
      rows.push_back({w, step, own.front(), middle_of(own), own.back(), end - begin - own.size()});
    }
  }
  std::ranges::stable_sort(rows, {}, &WindowRow::middle);
  return rows;
}

const char* row_name(bool of_clips, std::size_t steps) {
  return !of_clips ? "frame" : steps == 1 ? "window" : "step";
}

bool is_window_column(std::string_view name) {
  return name == kWindowFirst || name == kWindowLast || name == kWindowPadded;
}

}  // namespace coldframe::frames
