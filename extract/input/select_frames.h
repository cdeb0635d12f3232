// Selects frames of an exam by time, stride and count, and the windows over them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/input/frame_windows.h"

namespace coldframe::frames {

// Selects frames of an exam in this order:
// 1. those in [start_s, end_s), in seconds since the exam's first frame;
// 2. of these, every `every`-th from the first on, or, with `fps` > 0, those nearest to the times
// first + k / fps (k = 0, 1, …) that are not after the last one, each once; ties go to the earlier
// frame;
// 3. of these, `count` by spread_evenly(); count = 0 takes all. With `phases` (bounds of intervals
// of elapsed time), `count` is divided equally among the intervals (the first ones get the
// remainder) and spread evenly over the frames of each;
// 4. over these, windows.
struct FrameSelection {
  std::int64_t count = 0;
  std::int64_t every = 1;
  double fps = 0;
  double start_s = -std::numeric_limits<double>::infinity();
  double end_s = std::numeric_limits<double>::infinity();
  std::vector<double> phases =
      {};  // ascending seconds since the input's zero; n bounds, n + 1 phases
  WindowRule windows = {};

  bool thins() const { return every != 1 || fps > 0; }
  bool chooses() const { return count > 0 || every != 1 || fps > 0 || windows.is_of_clips(); }
  bool follows_times() const { return needs_times() || !phases.empty() || windows.follows_times(); }
  // Times of all frames, in ascending order.
  bool needs_times() const { return fps > 0 || std::isfinite(start_s) || std::isfinite(end_s); }
};

// Frame i of N is round(i·(T−1)/(N−1)), half to even; N = 1 takes the middle frame; T <= N and N =
// 0 take all.
std::vector<std::int64_t> spread_evenly(std::int64_t available, std::int64_t count);

// `times`: seconds of each frame since the exam's first one, NaN if unknown; `elapsed_start`:
// seconds of the first frame since the input's zero; `tails`: frames that represent a file's lost
// tail, which step 2 keeps, so that no exam is truncated silently. Returns ascending indices.
// DataError if required times are unknown or decrease, or if no frame is left. The only frame of an
// exam has time 0.
std::vector<std::int64_t> select_frames(std::span<const double> times,
                                        const FrameSelection& selection, double elapsed_start = 0,
                                        std::span<const std::int64_t> tails = {});

// As select_frames(), for an exam's slots with the given items and times. If items have streams,
// selects instants, each with the frames of all streams.
std::vector<std::int64_t> select_slots(const ExamSpec& exam, std::span<const std::size_t> items,
                                       std::span<const double> times,
                                       const FrameSelection& selection,
                                       std::span<const std::int64_t> tails = {});

// Step 4 over the slots that select_slots() takes. DataError likewise, and as windows_over().
std::vector<FrameWindow> select_windows(const ExamSpec& exam, std::span<const std::size_t> items,
                                        std::span<const double> times,
                                        const FrameSelection& selection,
                                        std::span<const std::int64_t> tails = {});

// The number of frames in each phase.
std::vector<std::size_t> count_phases(std::span<const double> times, std::span<const double> phases,
                                      double elapsed_start);

// One slot of an exam after selection. `frame.time_s` is seconds since the exam's first frame.
struct ExamSlot {
  std::size_t slot = 0;  // 0 … slots−1, in order
  std::size_t item = 0;  // index into ExamSpec::items
  bool present = true;   // false: a missing frame; pixels are empty
  Frame frame;
  std::string fault = {};  // why a missing frame is unreadable; "" if it has no file

  // Some, but not all, of its values are NaN or infinite.
  bool is_partly_finite() const { return present && frame.finite < 1; }
};

}  // namespace coldframe::frames
