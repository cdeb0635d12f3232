// Puts the inputs of a backbone together from the frames of an exam, each of which is decoded once,
// and describes their rows for the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/frame_windows.h"
#include "extract/input/select_frames.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// The windows of an exam, their rows in the cache, and the slots that they take.
struct ExamWindows {
  ExamWindows(std::vector<frames::FrameWindow> windows, std::size_t steps);

  bool of_clips() const { return windows.front().slots.size() > 1; }
  const char* row_name() const { return frames::row_name(of_clips(), steps); }
  bool is_middle(std::int64_t slot) const;   // of a row
  std::vector<std::size_t> middles() const;  // of the rows
  // window · steps + step of each row; empty where that is the row's own number.
  std::vector<std::size_t> features_of_rows() const;

  std::vector<frames::FrameWindow> windows;  // at least one
  std::size_t steps;
  std::vector<frames::WindowRow> rows;
  std::vector<std::int64_t> slots;
};

// What users call the inputs of a backbone ("frame", "window", "block") and the rows of its
// features ("frame", "window", "step", "block", "volume").
std::string input_name_of(const vit::Backbone& backbone);
std::string row_name_of(const vit::Backbone& backbone);

// Takes the inputs of frames in ascending order of slots, in each by view and tile, and gives those
// of every window as soon as its last frame is there. Holds a frame until its last window is given.
class WindowFrames {
 public:
  // The input of one view and tile of a window: pixels [T, H, W, 3], black where it is padded with
  // zeros. Returns false to stop.
  using Sink = std::function<bool(std::size_t window, preprocess::Input&& input)>;
  using Spare = std::function<std::vector<std::uint8_t>()>;  // memory for the pixels of a window

  // `windows` must outlive this.
  explicit WindowFrames(std::span<const frames::FrameWindow> windows);

  // False if the sink stopped. A window without some of its frames is never given. DataError if
  // frames of one window have different numbers of tiles.
  bool add(std::int64_t slot, preprocess::Input&& input, const Sink& sink, const Spare& spare);
  // Memory for the pixels of the next frame.
  std::vector<std::uint8_t> frame_memory(const Spare& spare);

 private:
  using Inputs = std::vector<preprocess::Input>;
  void turn_to(std::int64_t slot);
  std::optional<preprocess::Input> joined(const frames::FrameWindow& window, std::size_t number,
                                          const Spare& spare) const;

  std::span<const frames::FrameWindow> windows_;
  std::map<std::int64_t, std::vector<std::size_t>> ending_;  // windows by their last slots
  std::map<std::int64_t, std::int64_t> needed_until_;  // by slot: the last slot of its last window
  std::map<std::int64_t, Inputs> held_;                // by slot
  std::vector<std::vector<std::uint8_t>> free_;
};

// What the cache says of a frame that a window saw, or was to see.
struct SeenFrame {
  explicit SeenFrame(const frames::ExamSlot& slot);

  std::size_t item;
  bool present;
  std::int64_t index;
  double time_s;
  std::string fault;
  int width, height;
  std::optional<frames::Rect> crop = std::nullopt;
  std::string thumbnail = {};
};
using SeenFrames = std::map<std::int64_t, SeenFrame>;  // by slot

// The first frame of the window with a fault, or without one the first that is missing; null: it is
// whole.
const SeenFrame* lost_frame(const frames::FrameWindow& window, const SeenFrames& seen);

// The items of the rows' middle frames, which stand for them in the cache.
std::vector<std::size_t> items_of(const ExamWindows& windows, const SeenFrames& seen);

// Adds the rows to an exam without any: source and index of a row are those of its middle frame,
// its time lies in the middle between those of its first and last frame.
void note_rows(const frames::ExamSpec& exam, const ExamWindows& windows, const SeenFrames& seen,
               cache::ExamInfo& info);

// The crop and the thumbnail of each present row's middle frame.
std::vector<std::optional<frames::Rect>> crops_of(const ExamWindows& windows,
                                                  const SeenFrames& seen,
                                                  const cache::ExamInfo& info);
std::vector<std::string> thumbnails_of(const ExamWindows& windows, const SeenFrames& seen,
                                       const cache::ExamInfo& info);

// The frame columns of windows of several frames.
void note_window_columns(const ExamWindows& windows, cache::ExamInfo& info);
// Copies them, or those of blocks, to a description of the same exam built from the input alone.
void keep_window_columns(const cache::ExamInfo& cached, cache::ExamInfo& now);
// The places of the first and last frame of a cached row; nullopt: it is of a frame alone.
std::optional<std::pair<std::size_t, std::size_t>> seen_by_window(const cache::ExamInfo& cached,
                                                                  std::size_t row);
// True if a cached exam has the columns that these windows would have.
bool holds_rows_of(const cache::ExamInfo& cached, const ExamWindows& windows);

// The time of a row, by those of its first and last frame.
inline double middle_time(double first_s, double last_s) {
  return first_s + (last_s - first_s) / 2;
}

}  // namespace coldframe::extract
