// Windows of frames: what one input of a backbone sees. An image is a window of one frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/spelling.h"

namespace coldframe::frames {

// What stands in a window for the frames that a too short exam lacks at its end: the last frame
// again; zeros after normalisation; the frames from the first on again (as `repeat_last`, `wrap`
// of torchcodec's samplers; zeros as in EchoNet-Dynamic and EchoPrime). kRefuse: no such window.
enum class WindowPad { kRepeatLast, kZero, kWrap, kRefuse };
inline const WordTable<WindowPad> kWindowPads{{"repeat-last", WindowPad::kRepeatLast},
                                              {"zero", WindowPad::kZero},
                                              {"wrap", WindowPad::kWrap},
                                              {"refuse", WindowPad::kRefuse}};

// Which frames of its length a window takes: every k-th; or, as the loaders of V-JEPA
// (src/datasets/video_dataset.py) and VideoMAE (kinetics.py, ssv2.py) do,
// clip(linspace(0, T·k, T), 0, T·k − 1), rounded down. There a run of n < T·k frames gives
// clip(linspace(0, n, n / k), 0, n − 1) and is padded behind.
enum class WindowSampling { kEvery, kLinspace };
inline const WordTable<WindowSampling> kWindowSamplings{{"every", WindowSampling::kEvery},
                                                        {"linspace", WindowSampling::kLinspace}};

// The placement of windows over the selected frames of an exam. A window never spans two recordings
// (streams, and within them files of several frames), nor a gap longer than `gap_s` between
// neighbours; frames between these are a run. In each run windows begin at its first frame and then
// every `step` frames or `step_s` seconds, as long as all of their frames lie within the run. A run
// that is too short for one window gives a padded one. With `count`, each recording has that many
// of its whole windows by spread_evenly(), or if none is whole of the padded ones. At a time the
// last frame is shown that has begun, as in torchcodec; one that begins within a quarter of the
// run's mean distance of frames (at most 1 ms) behind it has begun, too, since containers round
// times.
struct WindowRule {
  std::int64_t frames = 1;  // T
  std::int64_t every = 1;   // k: takes every k-th frame of the run
  double fps = 0;           // > 0: instead, the frames shown at start + i / fps, i = 0 … T − 1
  std::int64_t step = 1;
  double step_s = 0;  // > 0: instead of `step`
  std::int64_t count = 0;
  WindowPad pad = WindowPad::kRepeatLast;
  WindowSampling sampling = WindowSampling::kEvery;
  double gap_s = std::numeric_limits<double>::infinity();

  bool is_of_clips() const { return frames > 1; }
  bool follows_times() const;
  bool operator==(const WindowRule&) const = default;
};

struct FrameWindow {
  static constexpr std::int64_t kBlank = -1;
  std::vector<std::int64_t> slots;  // [T] of the exam, in order of time; padding last
  std::size_t padded = 0;           // frames of padding

  // The frames that it saw.
  std::span<const std::int64_t> seen() const {
    return std::span(slots).first(slots.size() - padded);
  }
  // Of its padding, frames that are zero after normalisation.
  std::size_t blank() const { return slots.back() == kBlank ? padded : 0; }
};

// Windows over the frames with the ascending indices `selected`, ordered by their middle frames.
// `times` (seconds, NaN if unknown) and `recordings` (a number each) are of all slots of the exam.
// DataError if there is none, or if the rule follows times that are unknown or decrease.
std::vector<FrameWindow> windows_over(std::span<const std::int64_t> selected,
                                      std::span<const double> times,
                                      std::span<const std::size_t> recordings,
                                      const WindowRule& rule);

// The slots of any window, ascending, each once; without padding.
std::vector<std::int64_t> slots_of(std::span<const FrameWindow> windows);

// A row of the cache: a window, or one of the equal steps that a backbone divides it into.
struct WindowRow {
  std::size_t window = 0, step = 0;
  std::int64_t first = 0, middle = 0, last = 0;  // slots that it saw
  std::size_t padded = 0;
};

// Ordered by their middle frames. Steps that saw nothing but padding are left out.
std::vector<WindowRow> rows_of(std::span<const FrameWindow> windows, std::size_t steps);

// What users call rows: "frame", "window" or "step".
const char* row_name(bool of_clips, std::size_t steps);

// Columns of frames that a cache of clips has besides the input's: the places of a row's first and
// last frame among all frames of the exam, counted from 0, and how many of its frames are padding.
inline constexpr const char* kWindowFirst = "window_first";
inline constexpr const char* kWindowLast = "window_last";
inline constexpr const char* kWindowPadded = "window_padded";
bool is_window_column(std::string_view name);

}  // namespace coldframe::frames
