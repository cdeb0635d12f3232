// Readers of image files and clips behind one interface, and the registry in which each kind is one
// line.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/text/text.h"
#include "extract/frames/frame.h"
#include "extract/frames/frame_order.h"
#include "extract/frames/input/exam_list.h"
#include "extract/frames/reader_options.h"
#include "extract/frames/source_file.h"

namespace coldframe::frames {

// Thrown by Source::read: no frame of the file from this one on can be read.
class UnreadableFromHere : public DataError {
 public:
  using DataError::DataError;
};

// Thrown by Source::read: the file is damaged, and nothing tells which of its frames are whole,
// even of those that were handed over.
class CorruptFile : public DataError {
 public:
  using DataError::DataError;
};

// One file; holds no file handle between calls. Frames are delivered in ascending order; a
// container's own frame count is never trusted.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t frame_count() = 0;  // may decode the whole file once
  // Seconds since the file's first frame, NaN if unknown. Call frame_count() before.
  virtual double time_s(std::int64_t index) const = 0;
  // Unix seconds of the file's first frame, NaN where the file does not state it.
  virtual double start_time() const { return std::numeric_limits<double>::quiet_NaN(); }
  // What its order and times rest on. Call frame_count() before.
  virtual OrderBasis basis() const { return {kFileOrder, ""}; }
  // What a person should know of how the file is read, as far as it has been: what it says against
  // itself and what was taken, or what may not be meant. Clauses without its name. Call
  // frame_count() before.
  virtual std::vector<std::string> notes() const { return {}; }
  // Why the file's tail is lost; empty where it is whole. When not empty, the last frame stands for
  // the lost tail, however many frames that was. Call frame_count() before.
  virtual std::string lost_tail() const { return {}; }
  // How many streams its frames are of, as SourceFacts::frames has them.
  virtual std::size_t streams() const { return 1; }
  // Decodes the frames with the given ascending indices. DataError names the file and tells of the
  // first frame that was not handed over; those behind it may be asked for again, unless it is a
  // UnreadableFromHere.
  virtual void read(std::span<const std::int64_t> indices,
                    const std::function<void(Frame&&)>& sink) = 0;

  // Images of more than 8 bits need a range of values that becomes black to white. Where it is to
  // be found in the values themselves (neither the file nor the options state it), all files of an
  // exam are asked for their values and get one range, before the first read(); wants_range() is
  // false from then on.
  virtual bool wants_range() const { return false; }
  virtual void survey(ValueSurvey&) {}  // adds the values of all frames that can be read
  virtual void set_range(const ValueRange&) {}
  // The window that this range is found by, where --window is `asked`.
  virtual Window range_window(const Window& asked) const { return asked; }
  // The range of a file that is an exam by itself is found by read().
  virtual bool finds_range_alone() const { return false; }

  // Its values may be NaN or infinite.
  virtual bool holds_floats() const { return false; }
};

// A source that is one file. Its errors name the file: "clip 'a.gif': …".
class FileSource : public Source {
 protected:
  FileSource(const char* called, const SourceFile& file)
      : file_(file), name_(concat(called, " '", file.path().string(), "'")) {}

  template <typename Work>
  decltype(auto) guarded(const Work& work) const {
    return in_context(name_, work);
  }

  SourceFile file_;
  std::string name_;
};

// A frame of a file whose frames are of several channels.
struct ChannelFrame {
  std::string stream;                                        // the name of its channel
  double time_s = std::numeric_limits<double>::quiet_NaN();  // as Source::time_s()
};

// Holds what a file's header says of the exam that it belongs to; empty or NaN where it says
// nothing.
struct SourceFacts {
  std::string patient;                                           // as the header states it
  double start_time = std::numeric_limits<double>::quiet_NaN();  // Unix seconds, first frame
  std::vector<std::pair<std::string, std::string>> columns;      // "study", "view", …
  std::vector<ChannelFrame> frames;  // all, where they are of several streams; else none
  OrderBasis basis = {};             // of the file's frames
};

// A kind of file: all that the rest of the program knows of its reader. A reader defines its row
// beside itself and is named in registry.cpp.
struct SourceKind {
  const char* name;      // "image", "video"
  const char* contents;  // for messages: the formats that it reads
  bool is_clip = true;   // in a folder, each file is an exam; else files of one folder form one
  // The endings of such files' names, in small letters: first those that only this kind has, then
  // those that other files have, too.
  const char* suffixes = "";
  const char* other_suffixes = "";
  bool (*detect)(const SourceFile& file);  // by its head and its name, if they suffice
  // DataError, which names the file, when its header cannot be read.
  std::unique_ptr<Source> (*open)(const SourceFile& file, const ReaderOptions& options);
  // Null for kinds whose headers say nothing. Reads the header only. DataError as `open`.
  SourceFacts (*facts)(const SourceFile& file, const ReaderOptions& options) = nullptr;
  bool has_series = false;  // headers name exams, whose files dicom/series.h gathers
};
template <typename Reader>
std::unique_ptr<Source> open_as(const SourceFile& file, const ReaderOptions& options) {
  return std::make_unique<Reader>(file, options);
}

std::span<const SourceKind* const> source_kinds();  // the registry

// Null when no kind recognises the file. DataError when it cannot be read.
const SourceKind* detect_kind(const SourceFile& file);
// DataError, which says what the file looks like, when no kind recognises it.
const SourceKind& require_kind(const SourceFile& file);

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

// True from the bound on, and for what falls short of it by rounding alone.
bool reaches(double time_s, double bound_s);

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
