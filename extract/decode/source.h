// A person's choices of how files become frames; every reader takes from them what concerns it.
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
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/source_file.h"
#include "extract/decode/window.h"

namespace coldframe::frames {

// The slices of a volume that are read: [begin, end) in steps of `step`; end = −1: to the last one.
struct SliceRange {
  std::int64_t begin = 0, end = -1, step = 1;

  bool operator==(const SliceRange&) const = default;
};

// The rule by which the single-frame DICOM files of a folder become exams.
enum class DicomGrouping { kSeries, kStudy };

struct ReaderOptions {
  Window window;  // --window

  // Volumes, in RAS+ orientation: 0 = x (sagittal slices), 1 = y (coronal), 2 = z (axial).
  int axis = 2;       // --axis
  SliceRange slices;  // --slices; of a 4-D volume: these slices of every time point

  bool ignore_exif = false;  // --ignore-exif; else JPEG images are turned as their EXIF data states

  // Clips: what is shown of a picture.
  bool square_pixels = false;  // --square-pixels: as wide as the stream says that it is shown
  bool deinterlace = false;    // --deinterlace: the first field of each interlaced frame

  // Clips: those frames that can be read of one that is cut off count as all that there are.
  bool accept_broken_tail = false;  // --accept-broken-tail

  // Clips: frames outside these times, in seconds since the clip's first one, are not asked for and
  // need not be decoded.
  double from_s = -std::numeric_limits<double>::infinity();  // --start
  double until_s = std::numeric_limits<double>::infinity();  // --end

  // Clips: frames are counted without being decoded, and those that are cheap to decode stand for
  // the others. For a look before the job, never for the job itself.
  bool estimate = false;

  DicomGrouping grouping = DicomGrouping::kSeries;  // --group
  bool keep_patient_id = false;  // --keep-patient-id; else hashes of patients with `patient_salt`
  std::string patient_salt;      // --patient-salt
  EqualNumbers equal_numbers = EqualNumbers::kAsk;  // --equal-numbers: of patients
};

// What stands for a name that tells who somebody is: a hash of its plain spelling (spelling.h) with
// the salt, or with --keep-patient-id the name itself, in UTF-8. "" stays "".
std::string stored_identity(const std::string& name, const ReaderOptions& options);

// Readers of image files and clips behind one interface, and the registry in which each kind is one
// line.

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
// beside itself and is named in source.cpp.
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

// True from the bound on, and for what falls short of it by rounding alone.
bool reaches(double time_s, double bound_s);

// Kinds of files that people have and that are not read, by their names.

struct ForeignKind {
  const char *name, *names;  // "a HEIC image", "HEIC images"
  const char* advice;        // "convert it to JPEG or PNG"
};

// Null for a file that looks like none of them. DataError when it cannot be read.
const ForeignKind* foreign_kind(const SourceFile& file);

// True for the voxels of an ANALYZE 7.5 header that lies beside.
bool is_analyze_voxels(const SourceFile& file);

}  // namespace coldframe::frames
