// --input: a folder, a file, a CSV manifest or a split in JSON becomes a list of exams, without
// opening any frame.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"

namespace coldframe::frames {

// How an input's patients are stored.
struct PatientNames {
  std::optional<bool> hashed = std::nullopt;  // nothing: the input names none
  std::string salt = {};                      // of hashes: tells salts apart, and none of them
  bool numbers_alike = false;                 // 0123 and 123 have one hash (--equal-numbers same)
  std::size_t shown_by_names = 0;  // exams whose id, or a file's name, holds what a hash hides
};

struct ExamList {
  std::vector<ExamSpec> exams;  // in the order of the input
  std::vector<std::string> frame_columns;
  std::string streams = {};           // the one that names streams, where files' channels fill it
  std::vector<std::string> warnings;  // what was passed over, with the reason; may be thousands
  PatientNames patients = {};
};

// The first 20 of the warnings and how many more there are, for people.
std::vector<std::string> shown_warnings(const ExamList& list);

inline constexpr const char* kNoStreams = "none";

struct ExamListOptions {
  std::vector<std::string> frame_columns = {};  // --frame-columns
  bool allow_unordered = false;  // --allow-unordered: times within an exam may decrease
  ReaderOptions reader = {};
  bool sort_by_time = false;  // --sort time: of each exam's frames
  // --columns: what the manifest calls the columns "exam", "path", … (ours first)
  std::vector<std::pair<std::string, std::string>> columns = {};
  std::string exam_from = {};       // --exam-from, as PathPattern has it; "" for none
  std::string streams = {};         // --streams: the frame column that names each frame's stream;
                                    // kNoStreams: frames are chosen without regard to streams
  std::filesystem::path root = {};  // --root: of the paths in a table; "": where the table lies
};

// DataError: no such input, no exams in it, malformed manifest (naming line and column), an exam
// whose columns disagree, times that decrease, stated or in headers. Exams' ids are distinct.
// Whether the manifest's files exist is for OpenedExam to find out, so that one bad exam stops no
// job.
ExamList list_exams(const std::filesystem::path& input, const ExamListOptions& options);

// The kinds of input that hold several exams. A DICOMDIR's are those of the files that it names.
ExamList list_manifest(const std::filesystem::path& manifest, const ExamListOptions& options);
ExamList list_split(const std::filesystem::path& split, const ExamListOptions& options);
ExamList list_folder(const std::filesystem::path& folder, const ExamListOptions& options);
ExamList list_dicomdir(const std::filesystem::path& dicomdir, const ExamListOptions& options);

// Reads what a file's name says of it.

// They go by the suffix; such a file is one that ought to be readable.
bool is_named_as_image(const std::filesystem::path& path);
bool is_named_as_clip(const std::filesystem::path& path);
// A manifest: CSV, or what somebody may have taken for it.
bool is_named_as_table(const std::filesystem::path& path);
bool is_named_as_split(const std::filesystem::path& path);  // JSON

bool is_pattern(const std::string& name);    // with *, ? or [
std::string with_slashes(std::string name);  // for Windows' backslashes

// "; …" to stand behind the error of a file that is not there, where its path tells why; else "".
std::string why_missing(const std::filesystem::path& path);

// The file's name without the suffix of a kind that is read: "scan.nii.gz" -> "scan", "lung.2.gif"
// -> "lung.2"; "1.2.840.113619.2.1" stays.
std::string name_of_exam(const std::filesystem::path& file);

// Files whose pages show several channels: each channel is a stream.

class ChannelStreams {
 public:
  explicit ChannelStreams(const ExamListOptions& options) : options_(options) {}

  // Gives every frame of such files an item of its own. `frames`: SourceFacts::frames of the exam's
  // first file, which are not empty.
  void part(ExamSpec& exam, std::vector<ChannelFrame> frames);
  // Writes the streams to a frame column, and tells of it. DataError: an item that names a stream
  // already, or an exam's column of that name.
  void finish(ExamList& list) const;

 private:
  const ExamListOptions& options_;
  std::size_t files_ = 0;  // that were parted
  std::string first_;      // of these, in words
};

// The frame column that streams of channels are written to.
std::string channel_column(const ExamListOptions& options);

// The order of an exam's files where the manifest states no times, but their headers do.

// Checks the order of an exam whose times come from headers (ExamSpec::times_from_headers) and
// leaves one alone in which it is right, or in which a file states no time or cannot be read. Where
// acquisition tells no two files apart, but order_frames() does by time, its times count. With
// `sort_by_time` the items come into the order of time. With `allow_unordered` the items state the
// times, which decrease. Else times that decrease are a DataError.
void settle_header_times(ExamSpec& exam, const ExamListOptions& options);

// --crop and the manifest's column `crop` as text.

inline constexpr const char* kCropHelp =
    "x,y,w,h in pixels or shares of the frame (50%, 100%-50), 'auto' or 'none'";

// "10,0,320,240", "50%,0,50%,100%-50" (the right half without the lowest 50 pixels), "auto" or
// "none". Nothing for any other text, a share beyond 100 %, a negative corner or an empty
// rectangle.
std::optional<CropRule> parse_crop(std::string_view text);

}  // namespace coldframe::frames
