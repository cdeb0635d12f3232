// The frames of an exam that are wanted, by time, by distance and by number.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"

namespace coldframe::frames {

// Chooses the wanted frames of an exam, in this order:
// 1. those from `start_s` on and before `end_s`, in seconds since the exam's first frame;
// 2. of these, every `every`-th from the first on, or, with `fps` > 0, those nearest to the times
//    first + k / fps (k = 0, 1, …) that are not behind the last one, each once; between two frames
//    as near as each other the earlier one;
// 3. of these, `count`, as spread_evenly() says; count = 0 takes all. With `phases`, the bounds of
//    intervals of elapsed time, an equal share of `count` in each interval (the first ones get what
//    does not divide), spread evenly over the frames that it has.
struct FrameSelection {
  std::int64_t count = 0;
  std::int64_t every = 1;
  double fps = 0;
  double start_s = -std::numeric_limits<double>::infinity();
  double end_s = std::numeric_limits<double>::infinity();
  std::vector<double> phases =
      {};  // ascending seconds since the input's zero; n bounds, n + 1 phases

  bool thins() const { return every != 1 || fps > 0; }
  bool chooses() const { return count > 0 || every != 1 || fps > 0; }
  bool follows_times() const { return needs_times() || !phases.empty(); }
  // Of all frames, in their order.
  bool needs_times() const { return fps > 0 || std::isfinite(start_s) || std::isfinite(end_s); }
};

// Frame i of N is round(i·(T−1)/(N−1)), halves to even; N = 1 takes the middle one; T <= N takes
// all, and so does N = 0.
std::vector<std::int64_t> spread_evenly(std::int64_t available, std::int64_t count);

// `times`: every frame's seconds since the exam's first one, NaN where unknown; `elapsed_start`: of
// that one since the input's zero; `tails`: frames that stand for a file's lost tail, which step 2
// leaves in place, so that no exam is short in silence. Returns ascending indices. DataError when
// times are needed that are unknown or decrease, or when no frame is left. The only frame of an
// exam is at 0.
std::vector<std::int64_t> select_frames(std::span<const double> times,
                                        const FrameSelection& selection, double elapsed_start = 0,
                                        std::span<const std::int64_t> tails = {});

// The same of an exam's slots, whose items and times are given. Where items have streams, instants
// are chosen, each with the frames of all streams.
std::vector<std::int64_t> select_slots(const ExamSpec& exam, std::span<const std::size_t> items,
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
  std::string fault = {};  // why a missing frame cannot be read; "" for one that has no file

  // Some of its values are no finite numbers, and others are.
  bool is_partly_finite() const { return present && frame.finite < 1; }
};

}  // namespace coldframe::frames
