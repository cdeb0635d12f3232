// Readers of image files and clips behind one interface (`Source`), their registry (`SourceKind`),
// and the options of a user that they follow.
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
#include "extract/decode/volume.h"
#include "extract/decode/window.h"

namespace coldframe::frames {

// User options for decoding files into frames; each reader uses those that apply to it.

// Slices of a volume to read: [begin, end) with stride `step`; end = −1: to the last one.
struct SliceRange {
  std::int64_t begin = 0, end = -1, step = 1;

  bool operator==(const SliceRange&) const = default;
};

// How the single-frame DICOM files of a folder are grouped into exams.
enum class DicomGrouping { kSeries, kStudy };

struct ReaderOptions {
  Window window;  // --window

  // Volumes, in RAS+ orientation: 0 = x (sagittal slices), 1 = y (coronal), 2 = z (axial).
  int axis = 2;       // --axis
  SliceRange slices;  // --slices; in 4-D volumes: these slices of each time point

  bool ignore_exif = false;    // --ignore-exif; else rotates JPEG images by their EXIF data
  bool square_pixels = false;  // --square-pixels: scales the width to the display aspect ratio
  bool deinterlace = false;    // --deinterlace: use the first field of each interlaced frame

  // Clips: treat the readable frames of a truncated clip as the whole clip.
  bool accept_broken_tail = false;  // --accept-broken-tail

  // Clips: frames outside these times (seconds since the first frame) are not requested and need
  // not be decoded.
  double from_s = -std::numeric_limits<double>::infinity();  // --start
  double until_s = std::numeric_limits<double>::infinity();  // --end

  // Clips: counts frames without decoding, and samples those that are cheap to decode. Only for
  // previews, never for extraction.
  bool estimate = false;

  DicomGrouping grouping = DicomGrouping::kSeries;  // --group
  bool keep_patient_id = false;  // --keep-patient-id; else patients are hashed with `patient_salt`
  std::string patient_salt;      // --patient-salt
  EqualNumbers equal_numbers = EqualNumbers::kAsk;  // --equal-numbers: for patient ids
};

// Pseudonym of an identifying name: a salted hash of its normalized spelling (spelling.h) or, with
// --keep-patient-id, the name itself in UTF-8. "" stays "".
std::string stored_identity(const std::string& name, const ReaderOptions& options);

// Common interface of the readers of image files and clips, and their registry.

// Thrown by Source::read: this frame and all later ones of the file are unreadable.
class UnreadableFromHere : public DataError {
 public:
  using DataError::DataError;
};

// Thrown by Source::read: the file is damaged, and any frame may be corrupt, even those already
// delivered.
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
  virtual double start_time() const { return kNotStated; }
  // The basis of its order and times. Call frame_count() before.
  virtual OrderBasis basis() const { return {kFileOrder, ""}; }
  // Notes for the user on what was read so far: contradictions in the file and how they were
  // resolved, and possibly unintended content. Clauses without the file's name. Call frame_count()
  // before.
  virtual std::vector<std::string> notes() const { return {}; }
  // Why the file's tail is unreadable; empty if the file is complete. Otherwise the last frame
  // represents the lost tail, however many frames that was. Call frame_count() before.
  virtual std::string lost_tail() const { return {}; }
  // Number of streams among its frames, as in SourceFacts::frames.
  virtual std::size_t streams() const { return 1; }
  // Decodes the frames with the given ascending indices. DataError names the file and refers to the
  // first frame that was not delivered; later frames may be requested again, unless it is an
  // UnreadableFromHere.
  virtual void read(std::span<const std::int64_t> indices,
                    const std::function<void(Frame&&)>& sink) = 0;

  // Images of more than 8 bits need a value range that maps to black … white. If neither the file
  // nor the options state it, it is computed from the values of all files of the exam and set
  // before the first read(); wants_range() is false from then on.
  virtual bool wants_range() const { return false; }
  virtual void survey(ValueSurvey&) {}  // adds the values of all readable frames
  virtual void set_range(const ValueRange&) {}
  // The window that determines this range if --window is `asked`.
  virtual Window range_window(const Window& asked) const { return asked; }
  // If the file is an exam by itself, read() computes its range.
  virtual bool finds_range_alone() const { return false; }

  // Its values may be NaN or infinite.
  virtual bool holds_floats() const { return false; }

  // The planes of the file's volume, or the one plane of a file that is a slice of a volume.
  // DataError: it has none. read_planes() gives their values in this order, rescaled as the file
  // says (Hounsfield units), without any window.
  virtual std::vector<Plane> planes() const;
  virtual void read_planes(const std::function<void(std::span<const double>)>& sink);
};

// A source backed by one file. Its errors name the file: "clip 'a.gif': …".
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

// A frame of a multi-channel file.
struct ChannelFrame {
  std::string stream;          // the name of its channel
  double time_s = kNotStated;  // as Source::time_s()
};

// What a file's header states about its exam; empty or NaN if absent.
struct SourceFacts {
  std::string patient;                                       // as the header states it
  double start_time = kNotStated;                            // Unix seconds, first frame
  std::vector<std::pair<std::string, std::string>> columns;  // "study", "view", …
  std::vector<ChannelFrame> frames;  // all frames if they form several streams; else none
  OrderBasis basis = {};             // of the file's frames
};

// A file format: the whole interface of its reader. A reader defines its entry next to itself and
// is listed in source.cpp.
struct SourceKind {
  const char* name;      // "image", "video"
  const char* contents;  // for messages: formats it reads
  bool is_clip = true;   // in a folder, each file is an exam; else files of one folder form one
  // File name suffixes in lower case: first those unique to this kind, then those shared with other
  // files.
  const char* suffixes = "";
  const char* other_suffixes = "";
  bool (*detect)(const SourceFile& file);  // by the file's head and name, if they suffice
  // DataError, which names the file, when its header cannot be read.
  std::unique_ptr<Source> (*open)(const SourceFile& file, const ReaderOptions& options);
  // Null for kinds without metadata in their headers. Reads the header only. DataError as `open`.
  SourceFacts (*facts)(const SourceFile& file, const ReaderOptions& options) = nullptr;
  bool has_series = false;  // headers name exams, whose files dicom/series.h groups
};
template <typename Reader>
std::unique_ptr<Source> open_as(const SourceFile& file, const ReaderOptions& options) {
  return std::make_unique<Reader>(file, options);
}

std::span<const SourceKind* const> source_kinds();  // the registry

// Null when no kind recognises the file. DataError if it cannot be read.
const SourceKind* detect_kind(const SourceFile& file);
// DataError, which says what the file looks like, when no kind recognises it.
const SourceKind& require_kind(const SourceFile& file);

// time_s >= bound_s, up to rounding error.
bool reaches(double time_s, double bound_s);

// Common but unsupported formats, detected by file name.

struct ForeignKind {
  const char *name, *names;  // "a HEIC image", "HEIC images"
  const char* advice;        // "convert it to JPEG or PNG"
};

// Null if the file looks like none of them. DataError if it cannot be read.
const ForeignKind* foreign_kind(const SourceFile& file);

// True for the voxel file of an ANALYZE 7.5 header in the same folder.
bool is_analyze_voxels(const SourceFile& file);

}  // namespace coldframe::frames
